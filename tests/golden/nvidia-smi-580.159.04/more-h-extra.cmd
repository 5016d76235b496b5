nvidia-smi -h --bogus
