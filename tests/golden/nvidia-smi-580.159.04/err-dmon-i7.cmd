nvidia-smi dmon -i 7 -c 1
