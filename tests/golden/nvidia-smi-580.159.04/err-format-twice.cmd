nvidia-smi --query-gpu=index,name --format=csv --format=csv,noheader
