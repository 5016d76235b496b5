nvidia-smi dmon --gpm-metrics 0 -c 1
