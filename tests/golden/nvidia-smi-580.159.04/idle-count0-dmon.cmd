nvidia-smi dmon -c 2
# the driver library counted 0 GPUs, each the same board
