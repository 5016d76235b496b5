nvidia-smi
# the driver library counted 0 GPUs, each the same board
