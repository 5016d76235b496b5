nvidia-smi dmon bogus
