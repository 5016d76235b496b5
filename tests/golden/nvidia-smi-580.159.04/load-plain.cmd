nvidia-smi
# under load
