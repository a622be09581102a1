"""What a report draws, one file a kind of picture: SVG texts, each with its numbers as a table."""
