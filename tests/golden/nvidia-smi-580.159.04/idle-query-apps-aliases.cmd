nvidia-smi --query-compute-apps=name,used_memory --format=csv
