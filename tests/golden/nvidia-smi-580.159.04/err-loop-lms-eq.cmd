nvidia-smi --query-gpu=index,name --format=csv --loop-ms=300
# sent signal 15 after 1.5 s
