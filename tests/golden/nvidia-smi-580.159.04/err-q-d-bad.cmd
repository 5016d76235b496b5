nvidia-smi -q -d FOO
