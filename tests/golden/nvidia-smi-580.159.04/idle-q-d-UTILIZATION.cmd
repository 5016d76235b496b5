nvidia-smi -q -d UTILIZATION
