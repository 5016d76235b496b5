nvidia-smi dmon -s
