nvidia-smi --query-gpu=index,utilization.gpu,utilization.memory,memory.total,memory.free,temperature.gpu,power.draw,pcie.link.gen.current,pcie.link.width.current --format=csv,noheader,nounits
# under load
