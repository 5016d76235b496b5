nvidia-smi --query-gpu=timestamp,utilization.gpu --format=csv -l 1
# sent signal 2 after 2.5 s
