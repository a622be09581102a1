"""Running the user's code: its errors, its time, its process settings."""
