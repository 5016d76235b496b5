nvidia-smi --query-compute-apps=pid --format=csv -i 7
