nvidia-smi --query-gpu=timestamp,utilization.gpu --format=csv -lms 300
# sent signal 15 after 2.5 s
# under load
