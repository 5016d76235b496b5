nvidia-smi dmon -c 3
