nvidia-smi -L
# under load
