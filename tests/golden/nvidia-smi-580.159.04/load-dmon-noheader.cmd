nvidia-smi dmon --format noheader -c 2
# under load
