"""Small dense solvers: quadratic programmes, Newton steps, design matrices."""
