nvidia-smi dmon -c 2
# the driver library counted 17 GPUs, each the same board
