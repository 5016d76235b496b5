nvidia-smi dmon -s t -c 1
# under load
