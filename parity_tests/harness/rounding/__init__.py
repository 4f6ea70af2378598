"""How large rounding errors can be: a running error analysis over a jaxpr, with one rule for each primitive."""
