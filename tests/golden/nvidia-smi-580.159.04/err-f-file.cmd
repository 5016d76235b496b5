nvidia-smi --query-gpu=index,name --format=csv -f /tmp/smi.f
