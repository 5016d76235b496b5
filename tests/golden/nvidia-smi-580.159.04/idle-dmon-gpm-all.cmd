nvidia-smi dmon --gpm-metrics 1,2,3,4,5,6,7,8,9,10,11,12,13,20,21,60,61 -c 3
