"""Repairs of a cause, one file each: made in the live pipeline, to see what is gone with it."""
