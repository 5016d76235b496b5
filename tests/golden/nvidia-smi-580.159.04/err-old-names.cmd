nvidia-smi --query-gpu=clocks_throttle_reasons.active,clocks_throttle_reasons.hw_slowdown --format=csv
