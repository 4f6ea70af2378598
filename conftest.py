"""Runs the code blocks of the documents as tests, and says how tests are run: by which process, and in what order."""

import contextlib
import gc
import importlib.util
import io
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

pytest_plugins = ["parity_tests.suite.rotation", "parity_tests.suite.marks"]


def absent(*modules: str) -> str:
    """Say why a repro is skipped, by `<!--- skip: next absent("entmax") -->`; nothing if all modules are installed."""
    names = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(names)}" if names else ""


def alone(example: Example) -> None:
    """Run a repro as somebody does who pastes it into an empty file, and looks at what it prints."""
    example.namespace = {}  # the document's has `absent`
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        PythonEvaluator()(example)
    assert "gives" in printed.getvalue(), "the repro prints nothing: print('gives', given, 'right', right)"
    assert "right" in printed.getvalue(), "the repro does not print what is right"


pytest_collect_file = (
    Sybil(
        [PythonCodeBlockParser(), SkipParser()],
        patterns=["derivation/*.md", "docs/*.md", "README.md"],
    )
    + Sybil(
        [CodeBlockParser("python", alone), SkipParser()],
        patterns=["docs/found/*.md"],
        setup=lambda namespace: namespace.update(absent=absent),
    )
).pytest()


def pytest_itemcollected(item: pytest.Item) -> None:
    """The document that ports models and trains them is slow, and so are the examples of the README."""
    if item.path.name == "porting.md" or item.path == Path(__file__).parent / "README.md":
        item.add_marker(pytest.mark.slow)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--dist loadgroup`, which pytest-xdist passes on to its processes, the longest tests begin first."""
    from parity_tests.suite.groups import is_long

    if getattr(config.option, "loadgroup", False):
        items.sort(key=lambda item: not is_long(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main() -> Generator[None, Any, Any]:
    """Garbage is collected less often: looking for it among all modules takes a quarter of the time of collection."""
    before = gc.get_threshold()
    gc.set_threshold(20_000, 50, 100)
    try:
        return (yield)
    finally:
        gc.set_threshold(*before)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, Any, Any]:
    """While tests run, no garbage is looked for among the modules and the tests themselves."""
    gc.freeze()
    try:
        return (yield)
    finally:
        gc.unfreeze()


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadgroup` by `groups.py`: with pytest 9.2 the marker of pytest-xdist 3.8 has no effect."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    from parity_tests.suite.groups import group_of

    class ByGroup(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)
