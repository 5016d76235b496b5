nvidia-smi
# run in a new pid namespace; the contexts belong to processes outside it
