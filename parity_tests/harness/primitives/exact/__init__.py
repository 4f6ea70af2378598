"""Values in many bits, in numbers of an mpmath context: what the rules of the families share."""
