nvidia-smi dmon -f /tmp/dmon.f -c 2
