"""Checks of one family, one file each."""
