"""Arrays of NumPy and tensors of a GPU, and every compiled loop."""
