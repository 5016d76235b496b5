nvidia-smi dmon --format csv -o DT -c 1
# under load
