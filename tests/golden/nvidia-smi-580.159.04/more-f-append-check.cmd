nvidia-smi --query-gpu=index --format=csv -f /tmp/ff1
