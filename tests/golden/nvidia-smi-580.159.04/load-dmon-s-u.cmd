nvidia-smi dmon -s u -c 1
# under load
