nvidia-smi dmon -o T -c 1
