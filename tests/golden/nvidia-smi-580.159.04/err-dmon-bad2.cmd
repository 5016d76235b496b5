nvidia-smi dmon -Y
