nvidia-smi --query-gpu --format=csv
