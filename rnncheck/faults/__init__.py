"""The planted faults of ``selftest``: one file each, every one a way in which real pipelines were
wrong."""
