"""Reports: one file per format, each made from a Run alone."""
