nvidia-smi --query-gpu=gom --format=csv
# died of signal 11
