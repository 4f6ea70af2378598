"""Published functions with derivatives of their own, each judged as one of its users would.

`cases` has a case file of each; `benchmarks/results/gallery.json` has what is expected of it, and `docs/gallery.md` a
table of it. `python -m parity_tests.gallery` judges them again.
"""
