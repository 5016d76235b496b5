nvidia-smi -L -i 0
