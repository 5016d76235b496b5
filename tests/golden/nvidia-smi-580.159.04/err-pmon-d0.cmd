nvidia-smi pmon -d 0 -c 1
