nvidia-smi -q -i 7
