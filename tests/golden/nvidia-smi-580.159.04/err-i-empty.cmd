nvidia-smi --query-gpu=index,name --format=csv -i ''
