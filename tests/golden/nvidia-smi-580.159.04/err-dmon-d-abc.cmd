nvidia-smi dmon -d abc -c 1
