"""Asking rules: which, how, and what becomes of their outcomes."""
