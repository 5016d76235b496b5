nvidia-smi --query-gpu=index,name --format=csv -l 1 -f /tmp/smi.loopf
# sent signal 15 after 2.5 s
