nvidia-smi dmon -c 1
