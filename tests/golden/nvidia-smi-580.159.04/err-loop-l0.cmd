nvidia-smi --query-gpu=index,name --format=csv -l 0
