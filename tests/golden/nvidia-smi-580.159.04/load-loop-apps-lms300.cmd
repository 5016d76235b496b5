nvidia-smi --query-compute-apps=timestamp,pid,used_memory --format=csv -lms 300
# sent signal 15 after 1.5 s
# under load
