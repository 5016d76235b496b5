nvidia-smi --query-gpu=edpp_multiplier --format=csv
