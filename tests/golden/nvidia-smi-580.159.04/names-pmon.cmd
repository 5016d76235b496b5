nvidia-smi pmon -s um -c 1
