"""The native model files."""
