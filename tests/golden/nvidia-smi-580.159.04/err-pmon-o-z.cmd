nvidia-smi pmon -o Z -c 1
