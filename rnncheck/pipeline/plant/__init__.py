"""The seam through which faults are planted."""
