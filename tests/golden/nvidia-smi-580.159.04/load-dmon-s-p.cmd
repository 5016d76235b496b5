nvidia-smi dmon -s p -c 1
# under load
