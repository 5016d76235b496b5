nvidia-smi pmon -i 0 -c 1
