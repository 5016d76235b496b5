nvidia-smi dmon --format json -c 1
