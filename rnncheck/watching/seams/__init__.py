"""Where a script is watched: what it acts with, collects, estimates and trains on."""
