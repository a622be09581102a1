"""The spec file: reading, validating, describing."""
