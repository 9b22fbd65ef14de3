"""The pairwise ranking machine."""
