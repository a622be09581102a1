"""What a script does in a form of its own, in the form that the checks ask."""
