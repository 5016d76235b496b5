nvidia-smi -q -x
