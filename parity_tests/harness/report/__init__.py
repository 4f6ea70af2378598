"""What a run found, as data, text, HTML and JSON."""
