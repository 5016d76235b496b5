nvidia-smi --query-gpu=index --query-compute-apps=pid --format=csv
