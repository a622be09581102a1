"""What a trained policy remembers, how far back, and what replay must give it back."""
