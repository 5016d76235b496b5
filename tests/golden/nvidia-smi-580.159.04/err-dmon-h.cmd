nvidia-smi dmon -h
