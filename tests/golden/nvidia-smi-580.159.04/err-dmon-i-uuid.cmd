nvidia-smi dmon -i GPU-a1b2c3d4-0000-1111-2222-333344445555 -c 1
