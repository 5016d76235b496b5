nvidia-smi
# the driver library answered nvmlInit*=18
