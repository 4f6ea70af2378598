"""A function or class that a command is given, as `module:Name` or `file.py:Name`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parity_tests.cli.case_file import CaseError, load_module


def callable_of(target: str) -> Callable[..., Any]:
    """Import what a target names.

    Raises:
        CaseError: there is no such thing, or it cannot be called.
    """
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise CaseError(f"{target}: give module:Name or file.py:Name")
    if where.endswith(".py"):
        module = load_module(Path(where))
    else:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
        try:
            module = importlib.import_module(where)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit(), too
            said = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
            raise CaseError(f"{where}: {said}") from error
        finally:
            sys.path.pop(0)
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise CaseError(f"{target}: {where} has no function or class {name}")
    return found
