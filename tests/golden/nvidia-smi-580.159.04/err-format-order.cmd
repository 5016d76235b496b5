nvidia-smi --query-gpu=index,name --format=noheader,csv
