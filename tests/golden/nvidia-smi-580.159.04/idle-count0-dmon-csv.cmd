nvidia-smi dmon --format csv -c 2
# the driver library counted 0 GPUs, each the same board
