nvidia-smi --query-gpu=index,name --format=csv -i GPU-a1b2c3d4-0000-1111-2222-333344445555
