"""What was seen of a script, in a file: without pickle, and judged again without the script."""
