nvidia-smi --query-gpu=index,name --format=csv -i 00:06.0
