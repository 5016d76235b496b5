nvidia-smi --query-gpu=foo,index --format=csv
