"""Null CUDA: stock CUDA programs, PyTorch above all, run without a GPU on libraries that only look like CUDA's."""
