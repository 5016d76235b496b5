nvidia-smi dmon -c 3
# under load
