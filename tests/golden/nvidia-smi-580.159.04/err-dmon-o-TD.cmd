nvidia-smi dmon -o TD -c 1
