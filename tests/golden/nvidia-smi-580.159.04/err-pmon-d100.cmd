nvidia-smi pmon -d 100 -c 1
