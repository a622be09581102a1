"""A policy or critic as the thing under test."""
