"""LIBSVM's model files."""
