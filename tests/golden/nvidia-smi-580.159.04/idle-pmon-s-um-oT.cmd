nvidia-smi pmon -s um -o T -c 1
