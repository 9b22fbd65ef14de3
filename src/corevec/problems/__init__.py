"""The problems: quadratic programmes of the ball family, and pairs for ranking."""
