nvidia-smi --query-gpu=index --format=csv
# the driver library answered nvmlInit*=11
