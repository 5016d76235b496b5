nvidia-smi -L
# the driver library answered nvmlDeviceGet*=3, nvmlDeviceGetHandle* as usual, nvmlDeviceGetCount* as usual, nvmlDeviceGetPciInfo* as usual, nvmlDeviceGetIndex as usual
