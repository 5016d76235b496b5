nvidia-smi dmon --help
