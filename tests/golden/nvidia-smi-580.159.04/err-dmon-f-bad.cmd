nvidia-smi dmon -f /nonexistent/x -c 1
