nvidia-smi --format=csv --query-gpu=index
