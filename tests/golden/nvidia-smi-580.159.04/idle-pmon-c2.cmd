nvidia-smi pmon -c 2
