nvidia-smi --query-compute-apps=foo --format=csv
