nvidia-smi dmon -c 30   (on a pty 80x24)
