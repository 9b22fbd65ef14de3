"""The hinge loss by cutting planes (CPSP), and structured outputs."""
