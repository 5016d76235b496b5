nvidia-smi --query-gpu=index,name --format=csv -lms
# sent signal 15 after 1.5 s
