"""The pipeline in a process of its own: what it does to that process is told, and nothing of it is
left."""
