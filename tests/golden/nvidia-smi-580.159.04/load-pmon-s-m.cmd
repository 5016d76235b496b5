nvidia-smi pmon -s m -c 1
# under load
