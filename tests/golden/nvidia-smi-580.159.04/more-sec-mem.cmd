nvidia-smi --query-gpu=memory,index --format=csv
# died of signal 11
