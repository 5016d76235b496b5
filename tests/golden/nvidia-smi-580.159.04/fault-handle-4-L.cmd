nvidia-smi -L
# the driver library answered nvmlDeviceGetHandle*=4
