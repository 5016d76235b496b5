nvidia-smi --query-gpu=index,name --format=csv -i 0000:00:06.0
