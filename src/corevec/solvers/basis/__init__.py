"""Which vectors span the space: chosen, pursued, moved."""
