nvidia-smi dmon -s pucvmet -c 2
# under load
