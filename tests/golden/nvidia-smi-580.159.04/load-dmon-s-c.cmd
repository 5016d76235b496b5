nvidia-smi dmon -s c -c 1
# under load
