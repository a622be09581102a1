"""What a report draws, collected as numbers at the end of a run."""
