nvidia-smi
# the driver library answered nvmlInit*=12
