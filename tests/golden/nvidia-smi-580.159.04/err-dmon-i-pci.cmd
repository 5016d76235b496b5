nvidia-smi dmon -i 00000000:00:06.0 -c 1
