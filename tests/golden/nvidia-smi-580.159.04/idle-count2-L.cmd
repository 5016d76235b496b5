nvidia-smi -L
# the driver library counted 2 GPUs, each the same board
