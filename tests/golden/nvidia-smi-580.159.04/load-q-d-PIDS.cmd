nvidia-smi -q -d PIDS
# under load
