nvidia-smi -q -d PIDS
