nvidia-smi --query-gpu=index --format=csv -i 0 -i 0
