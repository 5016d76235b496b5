nvidia-smi pmon -s um -c 1
# the driver library answered nvmlDeviceGet*=15, nvmlDeviceGetHandle* as usual, nvmlDeviceGetCount* as usual, nvmlDeviceGetPciInfo* as usual, nvmlDeviceGetIndex as usual
