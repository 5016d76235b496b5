nvidia-smi -B
