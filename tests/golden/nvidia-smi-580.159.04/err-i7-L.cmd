nvidia-smi -L -i 7
