nvidia-smi --query-gpu=INDEX,Name --format=csv
