nvidia-smi dmon -s pucvmet -o DT -c 2
# under load
