nvidia-smi dmon -s m -c 1
# under load
