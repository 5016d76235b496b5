nvidia-smi --query-gpu=index,name,count,memory.used --format=csv
# the driver library counted 2 GPUs, each the same board
