nvidia-smi dmon -s '' -c 1
