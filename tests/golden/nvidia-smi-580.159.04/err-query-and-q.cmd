nvidia-smi -q --query-gpu=index --format=csv
