nvidia-smi dmon --format csv,noheader -c 2
# under load
