nvidia-smi --query-gpu=index,name --format=csv -i '0, 0'
