nvidia-smi dmon -c abc
