"""The specification of an operator, as data: signature, sizes, domains, and the samples made of them."""
