"""Changes of the user's files that mend a cause: tried in memory, offered once the run is green."""
