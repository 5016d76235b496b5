nvidia-smi dmon --format nounit -c 1
