"""The sweep: cells, worker processes, timing in pairs, accuracy, and a recommendation."""
