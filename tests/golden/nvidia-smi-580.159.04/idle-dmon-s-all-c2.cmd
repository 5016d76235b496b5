nvidia-smi dmon -s pucvmet -c 2
