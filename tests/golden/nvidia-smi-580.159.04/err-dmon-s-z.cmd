nvidia-smi dmon -s z -c 1
