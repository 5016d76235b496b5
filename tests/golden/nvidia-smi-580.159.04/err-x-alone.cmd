nvidia-smi -x
