"""Hostile or mistaken cases, files, names and processes: each has an exit code and a line that says what to do."""
