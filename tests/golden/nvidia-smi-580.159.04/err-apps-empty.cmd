nvidia-smi --query-compute-apps= --format=csv
