nvidia-smi pmon -s u -c 1
# under load
