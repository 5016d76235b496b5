nvidia-smi dmon -d 0 -c 1
