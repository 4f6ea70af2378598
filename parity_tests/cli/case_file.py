"""Reading a user's case: a Python file that defines `spec` and `candidate` or `candidates`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from parity_tests.cli.regular_file import why_no_file
from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.crosscheck import as_candidates, name_of, named
from parity_tests.harness.isolation.messages import CannotLoad
from parity_tests.harness.judging import hints
from parity_tests.harness.specs.spec import OpSpec


class CaseError(CannotLoad):
    """The case file cannot be used; the message names the file, the line where there is one, and the remedy."""


def load_case(path: Path, start: Path | None = None) -> tuple[OpSpec, list[AnyCandidate]]:
    """The spec and the candidates that a file defines.

    The file defines `spec` (an `OpSpec`), and `candidate` (a callable on tensors, or a `JaxCandidate`) or `candidates`
    (several, by name, or in a list, where those of one name are numbered), and optionally `limits`, the checks that
    they are known to fail, with the reasons, and `arithmetic`, what those round in 16 bits that do not say so.

    Args:
        path: of the file.
        start: the folder where a relative path begins, if it may not be the current one any more.

    Raises:
        CaseError: no such file, it does not run, or a name is missing or of a wrong type.
    """
    module = load_module(path, start, in_package=True)
    spec = _spec(path, module)
    limits, arithmetic = getattr(module, "limits", None), getattr(module, "arithmetic", None)
    try:
        calls = _candidates(path, module)
        hints.check_contracts(spec, calls)
        return spec, as_candidates(calls, limits, arithmetic)
    except (TypeError, ValueError) as error:
        raise CaseError(f"{path}: {error}") from error


def load_spec(path: Path) -> OpSpec:
    """The spec alone; the file may define candidates or not.

    Raises:
        CaseError: no such file, it does not run, or `spec` is missing or of a wrong type.
    """
    return _spec(path, load_module(path, in_package=True))


def load_module(path: Path, start: Path | None = None, in_package: bool = False) -> ModuleType:
    """Run a Python file as a module; for `start` see `load_case`.

    With `in_package` a file of a package has its dotted name, so that its relative imports work, and the package is
    imported first. That runs other files, which are not to be trusted beside somebody else's solution.

    Raises:
        CaseError: no such file, or it does not run.
    """
    file = Path(start or "", path)
    if reason := why_no_file(file):
        raise CaseError(f"{path}: {reason}")
    if file.suffix != ".py":
        raise CaseError(f"{path}: not a Python file; its name must end in .py")
    name, folders = _place(file.resolve(), in_package)
    loader = _FromSource(name, str(file))
    module_spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert module_spec is not None
    sys.path[:] = [folders[0], *sys.path, *folders[1:]]
    try:
        if package := name.rpartition(".")[0]:
            importlib.import_module(package)
        module = importlib.util.module_from_spec(module_spec)
        sys.modules[name] = module  # where dataclasses and pickle look it up
        loader.exec_module(module)
    except SyntaxError as error:
        line = "" if error.lineno is None else f", line {error.lineno}"  # of null bytes there is none
        raise CaseError(f"{path}{line}: SyntaxError: {error.msg}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit(), too
        line = _line_in(file, error)
        raise CaseError(f"{path}{line}: {type(error).__name__}: {error}") from error
    finally:
        for folder in folders:
            with contextlib.suppress(ValueError):  # the file has removed it
                sys.path.remove(folder)
    return module


def _place(file: Path, in_package: bool) -> tuple[str, Sequence[str]]:
    """The name under which a file is run, and the folders from which it can import.

    Those are its neighbours, as for a script; for a file of a package the folder that has the package comes first.
    """
    parts, folder = [file.stem], file.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts, folder = [folder.name, *parts], folder.parent
    known = sys.modules.get(parts[0])
    another = known is not None and str(folder / parts[0]) not in getattr(known, "__path__", ())
    if not in_package or len(parts) == 1 or not file.stem.isidentifier() or another:
        return f"gradparity_case_{file.stem}", [str(file.parent)]
    return ".".join(parts), [str(folder), str(file.parent)]


class _FromSource(SourceFileLoader):
    """Compiles the source each time.

    Python takes bytecode for current if the source has the same length and was changed within the same second: a quick
    edit of one digit would be judged as it was before.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _spec(path: Path, module: ModuleType) -> OpSpec:
    spec = getattr(module, "spec", None)
    if not isinstance(spec, OpSpec):
        found = "is missing" if spec is None else f"is a {type(spec).__name__}"
        raise CaseError(f"{path}: `spec` {found}; define spec = OpSpec(name, primal=..., signature=...)")
    try:
        hints.check_primal(spec)
    except TypeError as error:
        raise CaseError(f"{path}: {error}") from error
    return spec


def _candidates(path: Path, module: object) -> Mapping[str, Callable | AnyCandidate]:
    single, several = getattr(module, "candidate", None), getattr(module, "candidates", None)
    if (single is None) == (several is None):
        found = "neither is" if single is None else "both are"
        raise CaseError(
            f"{path}: {found} defined; define `candidate` (a callable on tensors) or `candidates` (several)"
        )
    if several is None:
        return {name_of(single): single}  # type: ignore[dict-item]
    if not isinstance(several, Mapping | list | tuple):
        raise CaseError(f"{path}: `candidates` must be a list, or a dictionary with names, got {several!r}")
    found = several if isinstance(several, Mapping) else named(several)
    hints.check_names(found)
    return found


def _line_in(path: Path, error: BaseException) -> str:
    traceback, line = error.__traceback__, ""
    while traceback is not None:
        if Path(traceback.tb_frame.f_code.co_filename) == path:
            line = f", line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return line
