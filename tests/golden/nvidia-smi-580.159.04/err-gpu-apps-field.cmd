nvidia-smi --query-gpu=pid --format=csv
