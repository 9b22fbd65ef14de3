"""Kernel values and Newton steps of torch tensors, in torch and in Triton."""
