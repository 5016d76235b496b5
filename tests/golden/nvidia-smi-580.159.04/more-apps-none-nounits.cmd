nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits
