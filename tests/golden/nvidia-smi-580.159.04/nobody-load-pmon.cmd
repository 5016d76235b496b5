nvidia-smi pmon -s um -c 1
# run as an unprivileged user
