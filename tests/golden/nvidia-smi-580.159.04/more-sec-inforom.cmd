nvidia-smi --query-gpu=inforom --format=csv
# died of signal 11
