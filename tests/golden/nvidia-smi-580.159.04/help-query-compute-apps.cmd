nvidia-smi --help-query-compute-apps
