"""The command line: what a person at a terminal types, sees, and gets as files."""
