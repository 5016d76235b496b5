nvidia-smi --query-compute-apps=pid --format=csv
# the driver library answered nvmlInit*=18
