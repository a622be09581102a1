"""Stored cases as programs: their parts, what they compare, and whether they show the fault."""
