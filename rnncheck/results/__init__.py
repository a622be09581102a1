"""What a run is, as data."""
