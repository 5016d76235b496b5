nvidia-smi --version
# the driver library answered nvmlInit*=9
