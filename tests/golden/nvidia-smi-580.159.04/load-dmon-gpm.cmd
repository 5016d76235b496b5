nvidia-smi dmon --gpm-metrics 1,2,3,5,10 -c 3
# under load
