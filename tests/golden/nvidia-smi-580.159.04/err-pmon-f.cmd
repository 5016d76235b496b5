nvidia-smi pmon -f /tmp/pmon.f -c 1
