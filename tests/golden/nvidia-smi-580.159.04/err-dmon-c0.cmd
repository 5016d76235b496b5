nvidia-smi dmon -c 0
