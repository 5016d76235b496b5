nvidia-smi -d MEMORY
