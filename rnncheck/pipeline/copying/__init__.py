"""Copies of the user's objects: what is run, converted or trained is never the original."""
