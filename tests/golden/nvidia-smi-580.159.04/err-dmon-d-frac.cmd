nvidia-smi dmon -d 0.5 -c 1
