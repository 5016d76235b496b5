nvidia-smi dmon -s pp -c 1
