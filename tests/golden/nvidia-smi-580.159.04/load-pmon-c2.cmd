nvidia-smi pmon -c 2
# under load
