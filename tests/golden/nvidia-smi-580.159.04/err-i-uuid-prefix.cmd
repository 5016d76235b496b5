nvidia-smi --query-gpu=index,name --format=csv -i GPU-a1b2c3d4
