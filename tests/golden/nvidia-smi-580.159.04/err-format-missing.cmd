nvidia-smi --query-gpu=index,name
