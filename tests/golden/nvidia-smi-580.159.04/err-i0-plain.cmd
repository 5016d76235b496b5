nvidia-smi -i 0
