nvidia-smi -i 7
