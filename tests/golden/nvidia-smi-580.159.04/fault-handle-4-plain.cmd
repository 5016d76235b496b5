nvidia-smi
# the driver library answered nvmlDeviceGetHandle*=4
