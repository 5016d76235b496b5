nvidia-smi dmon -d 2 -c 2
