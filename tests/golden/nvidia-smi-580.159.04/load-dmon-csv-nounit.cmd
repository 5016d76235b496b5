nvidia-smi dmon --format csv,nounit -c 2
# under load
