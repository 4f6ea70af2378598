"""Runs the code blocks of the documents as tests: what a page shows is what happens."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["derivation/*.md", "docs/*.md", "README.md"],
).pytest()
