nvidia-smi --query-gpu=index,foo,name --format=csv
