nvidia-smi dmon -c -1
# sent signal 15 after 8.0 s
