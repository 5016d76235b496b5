nvidia-smi --query-gpu=index,name --format=csv -i 7,0
