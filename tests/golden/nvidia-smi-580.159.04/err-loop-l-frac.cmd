nvidia-smi --query-gpu=index,name --format=csv -l 0.5
# sent signal 15 after 1.5 s
