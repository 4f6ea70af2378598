"""The court: judges anybody's operator and knows none."""
