nvidia-smi --query-gpu=index,name --format=csv -f /nonexistent/x
