nvidia-smi --query-compute-apps=pid
