nvidia-smi --query-compute-apps=pid,utilization.gpu --format=csv
