nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv
