"""The diagnosis of a wrong result: what it looks like, and whether the candidate or the oracle is right."""
