nvidia-smi pmon -c 2
# the driver library counted 2 GPUs, each the same board
