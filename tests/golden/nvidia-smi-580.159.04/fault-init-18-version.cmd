nvidia-smi --version
# the driver library answered nvmlInit*=18
