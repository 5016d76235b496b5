nvidia-smi -q -d MEMORY
# the driver library counted 2 GPUs, each the same board
