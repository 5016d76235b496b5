nvidia-smi --query-gpu=index,memory.used --format=csv -lms 300
# the driver library counted 0 GPUs, each the same board
