nvidia-smi --query-gpu=timestamp,driver_version,count,name,serial,uuid,pci.bus_id,pstate,memory.total,memory.reserved,memory.used,memory.free,utilization.gpu,utilization.memory,temperature.gpu,temperature.memory,power.draw,power.draw.instant,power.limit,clocks.sm,clocks.mem --format=csv,noheader,nounits
# under load
