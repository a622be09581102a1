"""The documentation site: stages the documents, generates what the code knows, and leaves both to
Sphinx."""
