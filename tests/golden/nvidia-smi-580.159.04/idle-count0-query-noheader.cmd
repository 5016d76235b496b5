nvidia-smi --query-gpu=index,name --format=csv,noheader
# the driver library counted 0 GPUs, each the same board
