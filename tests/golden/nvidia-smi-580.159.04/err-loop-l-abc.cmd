nvidia-smi --query-gpu=index,name --format=csv -l abc
# sent signal 15 after 1.5 s
