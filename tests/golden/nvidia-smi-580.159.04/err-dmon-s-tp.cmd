nvidia-smi dmon -s tp -c 1
