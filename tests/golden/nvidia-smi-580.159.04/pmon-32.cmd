nvidia-smi pmon -c 32
