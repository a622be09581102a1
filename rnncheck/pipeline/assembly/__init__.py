"""What makes the parts that a spec names."""
