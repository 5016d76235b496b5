nvidia-smi -h
