nvidia-smi -q -d MEMORY
