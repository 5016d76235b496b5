nvidia-smi --query-gpu=index,index --format=csv
