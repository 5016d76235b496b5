nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv
# the driver library counted 0 GPUs, each the same board
