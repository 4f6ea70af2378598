"""A kernel and the PyTorch code that it replaces as a source: two names in Python files, and the inputs in one line."""

from __future__ import annotations

import functools
import importlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from parity_tests.cli.regular_file import instead_of, why_no_file
from parity_tests.cli.sources.apart import Apart
from parity_tests.cli.sources.configurations import configurations_of, read_configurations
from parity_tests.cli.sources.names_in_file import listed, why_not_in
from parity_tests.cli.sources.parameters import parameters
from parity_tests.cli.sources.source import FailedCandidate
from parity_tests.cli.sources.stubs import check_stubs, stubbed
from parity_tests.harness.isolation.budget import TRIAL_SECONDS
from parity_tests.harness.isolation.imported import Stamp, stamps
from parity_tests.harness.names import nearest

if TYPE_CHECKING:
    from parity_tests.harness.candidates.not_built import NotBuilt
    from parity_tests.harness.candidates.torch_candidate import Candidate
    from parity_tests.harness.isolation.messages import Candidates
    from parity_tests.harness.specs.spec import OpSpec


@dataclass(frozen=True)
class Named:
    """A name in a Python file, "kernel.py:Norm.apply", or in a module, "package.kernel:Norm.apply"."""

    path: Path
    name: str

    @classmethod
    def parse(cls, text: str) -> Named:
        """Read it.

        Raises:
            ValueError: there is no name, or no such file or module, or it is not a Python file, or lacks the name.
        """
        path, colon, name = text.rpartition(":")
        path = _file_of_module(path) or path
        if not colon or not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"{text}: write the file and the name in it, such as kernel.py:norm")
        if reason := why_no_file(Path(path)):
            raise ValueError(f"{path}: {_why_no_module(path) or reason}")
        if not path.endswith(".py"):
            raise ValueError(f"{path}: not a Python file; its name must end in .py")
        if reason := why_not_in(Path(path), name):
            raise ValueError(f"{path}: {reason}")
        return cls(Path(path), name)

    def __str__(self) -> str:
        return f"{self.path}:{self.name}"

    def found_in(self, modules: dict[Path, Any], start: Path, in_package: bool) -> Callable:
        """Return the object with this name; a file runs once, kept in `modules`. For `in_package` see `load_module`.

        Raises:
            CannotLoad: the file does not run, or has no such name.
        """
        from parity_tests.cli.case_file import CaseError, load_module

        if self.path not in modules:
            try:
                modules[self.path] = load_module(self.path, start, in_package)
            except CaseError as error:
                missing = error.__cause__
                if not isinstance(missing, ModuleNotFoundError) or missing.name is None:
                    raise
                stub = f"if nothing that is judged calls it, --stub {missing.name} stands for it"
                raise CaseError(f"{error}; {stub}") from missing
        return _found(str(self.path), modules[self.path], self.name)

    def files(self, start: Path) -> Sequence[Path]:
        """Its file, where `start` is the folder in which its path begins."""
        return (start / self.path,)

    def origin(self, start: Path) -> str:
        """The name, with the whole path of the file."""
        return f"{(start / self.path).resolve()}:{self.name}"


@dataclass(frozen=True)
class NamedInTorch:
    """A name of PyTorch's own, "torch.nn.functional:silu"."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"

    def found_in(self, modules: dict[Path, Any], start: Path, in_package: bool) -> Callable:
        """Return the object of PyTorch with this name; no file is run.

        Raises:
            CannotLoad: PyTorch has no such module, or it has no such name.
        """
        from parity_tests.cli.case_file import CaseError

        try:
            module = importlib.import_module(self.module)
        except ImportError as error:
            raise CaseError(f"{self}: {error}") from error
        return _found(self.module, module, self.name)

    def files(self, start: Path) -> Sequence[Path]:
        """None that is the user's."""
        return ()

    def origin(self, start: Path) -> str:
        """The name."""
        return str(self)


def _found(place: str, module: ModuleType, name: str) -> Callable:
    """Return the object of a module with this name; for a Function its apply, for another class an instance."""
    import torch

    from parity_tests.cli.case_file import CaseError

    try:
        found = attrgetter(name)(module)
    except AttributeError as error:
        raise CaseError(f"{place}: has no {name}{_instead_of(name, module)}") from error
    if not isinstance(found, type):
        return found
    if issubclass(found, torch.autograd.Function):
        return found.apply
    try:
        return found()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit(), too
        raise CaseError(
            f"{place}:{name}: is a class, and making one without arguments raises {type(error).__name__}: {error}; "
            f"write made = {found.__name__}(...) into a file of yours, and give that name"
        ) from error


def _instead_of(name: str, module: ModuleType) -> str:
    """Return the end of an error about a missing name: the nearest name, and the callables that the file defines."""
    within: object = module
    parts = name.split(".")
    while len(parts) > 1 and hasattr(within, parts[0]):
        within, parts = getattr(within, parts[0]), parts[1:]
    own = [key for key, x in vars(module).items() if callable(x) and getattr(x, "__module__", "") == module.__name__]
    return f"{nearest(parts[0], dir(within))}{listed(own)}"


def _reference(text: str) -> Named | NamedInTorch:
    """Read the name of a reference, which PyTorch itself may have.

    Raises:
        ValueError: see `Named.parse`.
    """
    module, _, name = text.rpartition(":")
    return NamedInTorch(module, name) if _is_in_torch(text) else Named.parse(text)


def _is_in_torch(text: str) -> bool:
    """True of "torch.nn.functional:silu", unless a module of the current folder is called so."""
    module, _, name = text.rpartition(":")
    parts = (*module.split("."), *name.split("."))
    return parts[0] == "torch" and all(map(str.isidentifier, parts)) and _file_of_module(module) is None


def _file_of_module(name: str) -> str | None:
    """The file of a module, from the current folder or its `src`; None if it is no name of one."""
    return next((str(file) for file in _files_of_module(name) if file.is_file()), None)


def _files_of_module(name: str) -> Sequence[Path]:
    """The files that a module of this name may have; none if it is no name of one."""
    parts = name.split(".")
    if name.endswith(".py") or not all(part.isidentifier() for part in parts):
        return ()
    return tuple(Path(folder, *parts).with_suffix(".py") for folder in (".", "src"))


def _why_no_module(name: str) -> str:
    """Why nothing is found under the name of a module; "" if it is no name of one, or something else is there."""
    files = _files_of_module(name)
    if not files or Path(name).exists():
        return ""
    near = next((near for file in files if file.parent.is_dir() and (near := instead_of(file))), "")
    return f"no such file, nor a module {' or '.join(map(str, files))}{near}"


@dataclass(frozen=True)
class AgainstReference:
    """A kernel, judged by the PyTorch code that it replaces.

    Attributes:
        kernel: the callable that is judged.
        reference: the function or module that says what it should compute.
        inputs: "x: (n,d), w: (d)", see `OpSpec.from_torch`.
        sizes: rules for the sizes of the axes, see `OpSpec`.
        params: keyword parameters of both, see `parameters`.
        start: the folder where the paths begin.
        untrusted: whether the kernel is somebody else's, and must not run in the process that judges.
        apart: how it runs in a process of its own; None if it runs in the one that judges.
        stubs: modules that the files import and that are not here, see `stubs`.
        configs: JSON of the keyword arguments with which the kernel is judged, each a candidate; None for one without.
    """

    kernel: Named
    reference: Named | NamedInTorch
    inputs: str
    sizes: str | None
    params: str | None
    start: Path
    untrusted: bool = False
    apart: Apart | None = None
    stubs: tuple[str, ...] = ()
    configs: str | None = None

    @property
    def names(self) -> Sequence[str] | None:
        """Those of the configurations; else None: the files have not been run."""
        return None if self.configs is None else tuple(configurations_of(self.configs))

    @property
    def may_be_apart(self) -> bool:
        """Whether the kernel is one function in a file of its own, which the process that judges need not load."""
        file, others = (self.start / self.kernel.path).resolve(), self.reference.files(self.start)
        in_package = (file.parent / "__init__.py").exists()
        return not (self.configs or self.stubs or in_package or file in {other.resolve() for other in others})

    @property
    def file(self) -> Path | None:
        """None: no one file has both."""
        return None

    @property
    def files(self) -> Sequence[Path]:
        """The kernel's and the reference's."""
        return (*self.kernel.files(self.start), *self.reference.files(self.start))

    @property
    def origin(self) -> Mapping[str, str]:
        """The names, with the whole paths of the files, and the inputs."""
        found = {"kernel": self.kernel.origin(self.start), "reference": self.reference.origin(self.start)}
        written = {"inputs": self.inputs, "sizes": self.sizes, "params": self.params, "configs": self.configs}
        found |= {name: text for name, text in written.items() if text is not None}
        found |= {"stubs": " ".join(self.stubs)} if self.stubs else {}
        return found | ({"untrusted": "True"} if self.untrusted else {})

    def load(self) -> tuple[OpSpec, Candidates]:
        """Run the files, and make the specification of the reference.

        Raises:
            CannotLoad: a name is missing, or the reference cannot be made a function of JAX.
        """
        from parity_tests.cli.case_file import CaseError
        from parity_tests.harness.candidates.configurations import configured
        from parity_tests.harness.crosscheck import as_candidate, name_of

        if self.apart is not None:
            # The same object as long as its file has not changed, so that its oracle judges the next kernel, too.
            files = stamps(self.reference.files(self.start))
            spec = _known_spec(replace(self, kernel=_NO_KERNEL), tuple(files.values()))
            return spec, [self._candidate(self.apart)]
        modules: dict[Path, Any] = {}
        with stubbed(self.stubs):
            kernel = self.kernel.found_in(modules, self.start, in_package=True)
        spec = self._spec(modules, in_package=True)
        try:
            if self.configs is not None:
                calls = configured(kernel, configurations_of(self.configs).values())
                return spec, [as_candidate(call, name, None) for name, call in calls.items()]
            return spec, [as_candidate(kernel, name_of(kernel), None)]
        except (TypeError, ValueError) as error:
            raise CaseError(f"{self.kernel}: {error}") from error

    def _spec(self, modules: dict[Path, Any], in_package: bool) -> OpSpec:
        from parity_tests.cli.case_file import CaseError
        from parity_tests.harness.crosscheck import name_of
        from parity_tests.harness.specs.spec import OpSpec

        with stubbed(self.stubs):
            reference = self.reference.found_in(modules, self.start, in_package)
        try:
            params, name = parameters(self.params or ""), name_of(reference)
            return OpSpec.from_torch(reference, inputs=self.inputs, sizes=self.sizes, params=params, name=name)
        except (TypeError, ValueError) as error:
            raise CaseError(f"{self.reference}: {error}") from error

    def _candidate(self, apart: Apart) -> Candidate | NotBuilt:
        """The kernel in a process of its own."""
        from parity_tests.harness.candidates.not_built import NotBuilt
        from parity_tests.harness.candidates.torch_candidate import Candidate
        from parity_tests.harness.isolation.messages import CannotLoad

        file, name = self.start / self.kernel.path, self.kernel.name
        try:
            reference = next(iter(self.reference.files(self.start)), None)
            solution = apart.solution(file, self.kernel.path, name, reference=reference)
        except CannotLoad as error:
            return NotBuilt(name, str(error), expected=False)
        return Candidate(solution, name)

    def command(self, candidate: str) -> str:
        """Judge the kernel again, in the configuration of this candidate."""
        options = {"--reference": str(self.reference), "--inputs": self.inputs}
        options |= {"--sizes": self.sizes, "--params": self.params}
        if self.configs is not None:
            options["--configs"] = json.dumps([configurations_of(self.configs)[candidate]])
        written = (f" {option} {shlex.quote(value)}" for option, value in options.items() if value is not None)
        flags = [*(f" --stub {name}" for name in self.stubs), *([" --untrusted"] if self.untrusted else [])]
        return f"check {shlex.quote(str(self.kernel))}{''.join(written)}{''.join(flags)}"


_NO_KERNEL = Named(Path(), "")


@functools.lru_cache(64)
def _known_spec(source: AgainstReference, files: tuple[Stamp | None, ...]) -> OpSpec:
    """The specification of a reference, whatever the kernel is; `files`: the state of the reference's files."""
    return source._spec({}, in_package=source.apart is not None and source.apart.forked)


def against_reference(
    kernel: str,
    reference: str,
    inputs: str | None,
    sizes: str | None,
    params: str | None,
    untrusted: bool = False,
    stubs: Sequence[str] = (),
    configs: str | None = None,
) -> AgainstReference:
    """A kernel and its reference by their names in files.

    Raises:
        ValueError: a file or a name is missing, or the inputs are; or these or the parameters cannot be read; or a stub
            stands for a module that is there; or an untrusted kernel is in the reference's file, or has stubs; or the
            configurations cannot be read.
    """
    from parity_tests.harness.specs.input_text import Inputs

    if inputs is None:
        raise ValueError('--reference needs the inputs, by name, with their axes: --inputs "x: (n,d), w: (d)"')
    Inputs.parse(inputs)
    parameters(params or "")
    named, against = Named.parse(kernel), _reference(reference)
    if untrusted and isinstance(against, Named) and named.path.resolve() == against.path.resolve():
        raise ValueError(
            f"--untrusted: {named.path} has both the kernel and the reference, which would run with it; write the "
            "reference into a file of your own"
        )
    if untrusted and stubs:
        raise ValueError(f"--stub {stubs[0]}: a kernel that is --untrusted has none; judge it where that is installed")
    if untrusted and configs is not None:
        raise ValueError("--configs: a kernel that is --untrusted is judged as it is; write a file for a configuration")
    check_stubs(stubs)
    configs = None if configs is None else read_configurations(configs)
    return AgainstReference(
        named, against, inputs, sizes, params, Path.cwd(), untrusted, stubs=tuple(stubs), configs=configs
    )


def reference_of_failure(failed: FailedCandidate) -> AgainstReference:
    """The kernel and the reference that a failure names.

    Raises:
        CannotLoad: a name cannot be used, or its file lies outside of the current folder: see `FailedCandidate.file`.
    """
    from parity_tests.harness.isolation.messages import CannotLoad

    origin = failed.origin or {}
    for role in ("kernel", "reference"):
        if role == "kernel" or not _is_in_torch(origin[role]):
            failed.file(role, origin[role].rpartition(":")[0])
    try:
        inputs, sizes, params, configs = (origin.get(key) for key in ("inputs", "sizes", "params", "configs"))
        untrusted, stubs = "untrusted" in origin, origin.get("stubs", "").split()
        found = against_reference(
            origin["kernel"], origin["reference"], inputs, sizes, params, untrusted, stubs, configs
        )
        return replace(found, apart=Apart(TRIAL_SECONDS)) if found.untrusted else found
    except ValueError as error:
        raise CannotLoad(f"{failed.path}: {error}") from error
