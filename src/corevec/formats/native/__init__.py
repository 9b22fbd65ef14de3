"""corevec's own model files."""
