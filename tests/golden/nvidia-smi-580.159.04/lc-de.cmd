nvidia-smi --query-gpu=power.draw,timestamp --format=csv
# LC_ALL=de_DE.UTF-8
