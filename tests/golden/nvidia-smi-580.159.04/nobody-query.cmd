nvidia-smi --query-gpu=index,name,power.draw,temperature.gpu,serial,memory.used,ecc.mode.current,clocks.sm,utilization.gpu,clocks_event_reasons.active,encoder.stats.sessionCount --format=csv
# run as an unprivileged user
