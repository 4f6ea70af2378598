"""The paper: numbered equations, executed by the tests."""
