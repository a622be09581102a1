"""Watching a training script as it runs, and making a pipeline of what was seen."""
