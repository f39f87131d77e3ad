"""Null CUDA: stock CUDA programs, PyTorch above all, run without a GPU on libraries that look like CUDA's."""
