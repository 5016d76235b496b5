nvidia-smi -L
# the driver library counted 17 GPUs, each the same board
