nvidia-smi --query-gpu=index,name --format=csv -lms 0
