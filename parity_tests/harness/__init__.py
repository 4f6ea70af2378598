"""The harness: judges any operator, and knows none by name."""
