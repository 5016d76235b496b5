nvidia-smi -x --query-gpu=index --format=csv
