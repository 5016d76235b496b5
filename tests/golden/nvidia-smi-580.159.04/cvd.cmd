nvidia-smi --query-gpu=index --format=csv
# CUDA_VISIBLE_DEVICES=
