nvidia-smi --query-gpu=,index --format=csv
