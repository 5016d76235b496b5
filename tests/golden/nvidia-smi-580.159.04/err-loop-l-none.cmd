nvidia-smi --query-gpu=index,name --format=csv -l
# sent signal 15 after 1.5 s
