nvidia-smi -Y
