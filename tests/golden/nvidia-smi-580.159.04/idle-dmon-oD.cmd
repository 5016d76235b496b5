nvidia-smi dmon -o D -c 1
