nvidia-smi --query-gpu=index,name --format=csv -lms abc
# sent signal 15 after 1.5 s
