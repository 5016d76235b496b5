nvidia-smi dmon -s u --gpm-metrics 2,10 --format csv -c 3
