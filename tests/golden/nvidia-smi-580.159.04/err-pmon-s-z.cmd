nvidia-smi pmon -s z -c 1
