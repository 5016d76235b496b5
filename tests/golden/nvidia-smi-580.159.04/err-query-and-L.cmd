nvidia-smi -L --query-gpu=index --format=csv
