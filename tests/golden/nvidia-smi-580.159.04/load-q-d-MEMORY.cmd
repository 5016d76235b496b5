nvidia-smi -q -d MEMORY
# under load
