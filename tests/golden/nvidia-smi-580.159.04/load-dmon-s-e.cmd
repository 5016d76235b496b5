nvidia-smi dmon -s e -c 1
# under load
