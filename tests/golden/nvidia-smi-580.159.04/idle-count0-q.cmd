nvidia-smi -q -d MEMORY
# the driver library counted 0 GPUs, each the same board
