nvidia-smi bogus
