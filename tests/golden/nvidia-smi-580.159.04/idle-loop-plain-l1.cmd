nvidia-smi -l 1
# sent signal 15 after 2.5 s
