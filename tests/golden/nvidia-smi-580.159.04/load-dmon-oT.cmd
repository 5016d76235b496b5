nvidia-smi dmon -o T -c 1
# under load
