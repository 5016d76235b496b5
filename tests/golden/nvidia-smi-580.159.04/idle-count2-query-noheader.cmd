nvidia-smi --query-gpu=index,name --format=csv,noheader
# the driver library counted 2 GPUs, each the same board
