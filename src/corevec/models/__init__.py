"""What a fit leaves: functions, bases, certificates, checkpoints."""
