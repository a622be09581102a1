"""What observes a loss or an estimator at work."""
