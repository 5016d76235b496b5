nvidia-smi pmon -i 7 -c 1
