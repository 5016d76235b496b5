nvidia-smi dmon -c 1
# the driver library answered nvmlDeviceGetHandle*=15
