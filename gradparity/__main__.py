"""`python -m gradparity` is the program `gradparity`."""

from parity_tests.__main__ import main

if __name__ == "__main__":
    main()
