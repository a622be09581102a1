"""What was collected and stored, and what makes batches of it."""
