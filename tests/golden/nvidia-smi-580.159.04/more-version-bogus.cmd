nvidia-smi --version --bogus
