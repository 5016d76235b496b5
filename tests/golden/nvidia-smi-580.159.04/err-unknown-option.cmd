nvidia-smi --bogus
