nvidia-smi --query-gpu=index --format=csv --filename /tmp/zz
