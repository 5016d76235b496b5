nvidia-smi dmon --gpm-metrics abc -c 1
