"""Failing cases: the smallest that shows a cause, stored so that it can be run again."""
