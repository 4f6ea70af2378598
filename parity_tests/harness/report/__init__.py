"""The report of a run, as data, text, HTML and JSON."""
