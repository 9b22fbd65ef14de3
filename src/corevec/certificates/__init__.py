"""How far a function is from the optimum: scans over rows, bounds from below."""
