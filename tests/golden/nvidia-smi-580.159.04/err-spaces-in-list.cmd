nvidia-smi '--query-gpu=index, name ,uuid' --format=csv
