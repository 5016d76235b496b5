nvidia-smi -q
# the driver library answered nvmlDeviceGetHandle*=4
