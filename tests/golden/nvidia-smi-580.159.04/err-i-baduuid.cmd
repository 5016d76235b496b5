nvidia-smi --query-gpu=index,name --format=csv -i GPU-00000000-0000-0000-0000-000000000000
