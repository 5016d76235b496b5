nvidia-smi --query-gpu=kmd_version --format=csv
