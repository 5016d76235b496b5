nvidia-smi pmon -h
