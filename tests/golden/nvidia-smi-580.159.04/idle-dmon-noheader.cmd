nvidia-smi dmon --format noheader -c 2
