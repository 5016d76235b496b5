nvidia-smi -q -x
# under load
