"""Whether each observation shows what the task takes."""
