nvidia-smi dmon -d 100 -c 1
