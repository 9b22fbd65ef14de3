"""Model files of LIBSVM."""
