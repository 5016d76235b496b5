nvidia-smi dmon -o Z -c 1
