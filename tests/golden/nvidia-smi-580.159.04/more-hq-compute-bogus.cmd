nvidia-smi --help-query-foo
