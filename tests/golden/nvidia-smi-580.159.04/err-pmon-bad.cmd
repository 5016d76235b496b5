nvidia-smi pmon --bogus
