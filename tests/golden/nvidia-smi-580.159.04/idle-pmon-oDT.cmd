nvidia-smi pmon -o DT -c 2
