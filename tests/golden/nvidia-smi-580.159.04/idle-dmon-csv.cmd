nvidia-smi dmon --format csv -c 2
