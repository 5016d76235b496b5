nvidia-smi dmon -s pz -c 1
