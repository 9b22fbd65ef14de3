"""Measurements of corevec beside its peers; see benchmarks/README.md."""
