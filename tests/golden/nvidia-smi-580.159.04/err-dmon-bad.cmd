nvidia-smi dmon --bogus
