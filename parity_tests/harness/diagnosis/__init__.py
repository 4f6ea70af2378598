"""What a wrong result looks like, and who is right."""
