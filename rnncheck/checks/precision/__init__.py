"""What was computed, in how many bits: checks of precision."""
