"""Many vectors replaced by few."""
