nvidia-smi --list-gpus
