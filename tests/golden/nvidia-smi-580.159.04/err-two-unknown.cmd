nvidia-smi --query-gpu=foo,bar --format=csv
