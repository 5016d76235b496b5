nvidia-smi --query-gpu=memory.total,memory.used --format=csv,noheader
# under load
