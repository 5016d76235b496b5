nvidia-smi --query-gpu=index,name --format=csv --filename=/tmp/smi.f2
