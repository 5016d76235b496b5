nvidia-smi dmon --gpm-metrics 999 -c 1
