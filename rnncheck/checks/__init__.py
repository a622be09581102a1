"""The checks and what chooses and runs them."""
