nvidia-smi --query-gpu=index --query-gpu=name --format=csv
