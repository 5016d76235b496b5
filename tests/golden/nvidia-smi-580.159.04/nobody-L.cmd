nvidia-smi -L
# run as an unprivileged user
