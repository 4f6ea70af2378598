"""`python -m parity_tests` is `gradparity`."""

from parity_tests.cli import main

main()
