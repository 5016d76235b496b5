nvidia-smi --query-gpu=index --format=csv -i 1
# the driver library counted 0 GPUs, each the same board
