nvidia-smi --query-gpu=index,memory.used --format=csv -lms 300
# the driver library counted 2 GPUs, each the same board
# sent signal 15 after 1.0 s
