nvidia-smi dmon -s v -c 1
# under load
