nvidia-smi --query-gpu=timestamp --format=csv
# TZ=Asia/Tokyo
