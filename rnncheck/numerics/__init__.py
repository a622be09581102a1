"""Torch without reinforcement learning: differences, tolerances, perturbations."""
