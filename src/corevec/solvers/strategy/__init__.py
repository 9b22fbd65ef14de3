"""Which solver takes a task."""
