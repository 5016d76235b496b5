nvidia-smi pmon -s u -c 1
