nvidia-smi --query-gpu=index,temperature.gpu,power.draw,pci.bus_id --format=csv
# the driver library answered nvmlDeviceGetPciInfo*=15
