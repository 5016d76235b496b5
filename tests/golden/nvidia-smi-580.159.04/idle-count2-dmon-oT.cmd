nvidia-smi dmon -o T -c 1
# the driver library counted 2 GPUs, each the same board
