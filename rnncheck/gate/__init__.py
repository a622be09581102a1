"""The CI step: checks, budgets, a baseline and another side, judged together."""
