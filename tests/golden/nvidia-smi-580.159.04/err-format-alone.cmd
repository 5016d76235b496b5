nvidia-smi --format=csv
