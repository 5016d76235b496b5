nvidia-smi --query-gpu=index,name --format=csv -l 1 -lms 300
# sent signal 15 after 1.5 s
