nvidia-smi dmon -s pucvmet -c 1
# run as an unprivileged user
