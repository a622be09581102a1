"""Fixes, one file each: what the printed fix says, as a change of the spec or of a factory."""
