nvidia-smi -q -d UTILIZATION
# under load
