nvidia-smi --query-gpu=memory --format=csv
# died of signal 11
