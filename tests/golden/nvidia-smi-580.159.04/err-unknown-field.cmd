nvidia-smi --query-gpu=foo --format=csv
