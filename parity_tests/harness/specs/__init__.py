"""What an operator should compute, as data: signature, sizes, domains, and the samples made of them."""
