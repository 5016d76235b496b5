nvidia-smi -q
# the driver library answered nvmlInit*=12
