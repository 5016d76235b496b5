nvidia-smi dmon --format csv,noheader -c 2
