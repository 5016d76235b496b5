nvidia-smi -q
# under load
