nvidia-smi pmon -s um -c 1
# the driver library answered nvmlDeviceGetProcess*Util*=6
# under load
