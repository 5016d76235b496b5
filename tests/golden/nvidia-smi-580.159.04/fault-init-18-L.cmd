nvidia-smi -L
# the driver library answered nvmlInit*=18
