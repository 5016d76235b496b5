nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv
# run in a new pid namespace; the contexts belong to processes outside it
