nvidia-smi --query-gpu=index --format=csv --id 0
