nvidia-smi pmon -c 0
