nvidia-smi dmon -c 35
