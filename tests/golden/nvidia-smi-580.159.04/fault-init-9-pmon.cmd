nvidia-smi pmon -c 1
# the driver library answered nvmlInit*=9
