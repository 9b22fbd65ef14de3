"""What is minimised: the problems of the ball family, and pairs for ranking."""
