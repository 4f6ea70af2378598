"""Programs that go on where they were: each outcome is kept at once, and an item that has one is not judged again.

An item has a key, and its outcome is a dataclass. A program makes a `Campaign`, which knows what its outcomes and its
page are: `due` are the items to judge, and `keep` writes each outcome as it comes.
"""

from __future__ import annotations

import datetime
import functools
import json
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.run import commit, facts
from parity_tests.harness.report.atomic_file import write_text

MET, MISSED, INTERRUPTED = 0, 1, 2  # exit codes
ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("torch", "jax", "jaxlib", "numpy", "scipy", "triton", "jax-triton")
Key = TypeVar("Key")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class Stamped:
    """The origin of an outcome.

    Attributes:
        ended: when, in UTC, as ISO 8601 has it.
        commit: of the working tree, with a plus sign if it was edited; None outside of a repository.
        versions: of Python, the machine and the packages.
    """

    ended: str
    commit: str | None
    versions: str


@dataclass
class Campaign(Generic[Key, Outcome]):
    """The outcomes of a program, and the file that has them, with a Markdown page beside it.

    Attributes:
        made: makes an outcome of the fields that the file has of it: the dataclass.
        page: the text of the page, of `about` and the outcomes as the file has them; None if the program writes it.
        under: the name of the outcomes in the file; without it the file has nothing else.
        fields: those of an outcome that make its key; without them the file has the outcomes by their keys.
        items: all that there are, in order: others are forgotten, and the file says whether it is complete.
        order: by what the outcomes are sorted if there are no items; without it they stay as they came.
        since: when an outcome that is out of date was found, or "" if it is as good as none; None of another one.
        resume: go on with what the file has.
        about: what the file says besides the outcomes.
    """

    path: Path
    made: Callable[..., Outcome]
    page: Callable[[dict[str, Any], Any], str] | None
    under: str = ""
    fields: tuple[str, ...] = ()
    _: KW_ONLY
    items: Sequence[Key] = ()
    order: Callable[[Key], Any] | None = None
    since: Callable[[Outcome], str | None] = lambda outcome: None
    resume: bool = True
    about: dict[str, Any] = field(default_factory=dict)
    kept: dict[Key, Outcome] = field(default_factory=dict)
    interrupted: bool = False

    def __post_init__(self) -> None:
        """Read what the file has, if there is one."""
        if not self.resume or not self.path.exists():
            return
        stored = json.loads(self.path.read_text(encoding="utf-8"))
        found = stored.pop(self.under) if self.under else stored
        self.about = stored if self.under else {}
        made = (self.made(**each) for each in (found if self.fields else found.values()))
        pairs = self.keyed(made) if self.fields else zip(found, made, strict=True)
        self.kept = {key: outcome for key, outcome in pairs if not self.items or key in self.items}

    @property
    def outcomes(self) -> Any:
        """The kept ones in order: a list, or by their keys if the file has them so."""
        order = self.items.index if self.items else self.order
        found = {key: self.kept[key] for key in (sorted(self.kept, key=order) if order else self.kept)}
        return list(found.values()) if self.fields else found

    def keyed(self, outcomes: Iterable[Outcome]) -> Iterator[tuple[Any, Outcome]]:
        """The outcomes with their keys."""
        of: Callable[[Outcome], Any] = attrgetter(*self.fields)
        return ((of(outcome), outcome) for outcome in outcomes)

    def due(self, keys: Iterable[Key]) -> list[Key]:
        """The items to judge: those without an outcome, then those whose outcome is out of date, the oldest first."""
        since = [(self.since(self.kept[key]) if key in self.kept else "", key) for key in keys]
        found = [(when, key) for when, key in since if when is not None]
        return [key for _, key in sorted(found, key=itemgetter(0))]

    def keep(self, found: Iterable[tuple[Key, Outcome]], tell: Callable[[Key, Outcome], object]) -> None:
        """Keep, write and tell each outcome as it comes, until they end or somebody interrupts."""
        try:
            for key, outcome in found:
                self.kept[key] = outcome
                self.write()
                tell(key, outcome)
        except KeyboardInterrupt:
            self.interrupted = True

    def write(self) -> None:
        """Write the file and the page, each whole or not at all."""
        if self.items:
            self.about["complete"] = len(self.kept) == len(self.items)
        save(self.path, self.text(), self.page(self.about, self.outcomes) if self.page else None)

    def text(self) -> str:
        """The contents of the file."""
        data = [asdict(x) for x in self.outcomes] if self.fields else {k: asdict(x) for k, x in self.outcomes.items()}
        return as_json({**self.about, self.under: data} if self.under else data)

    def exit_code(self, missed: bool) -> int:
        """2 if the run was interrupted, else 1 if a bar is missed, else 0."""
        return INTERRUPTED if self.interrupted else MISSED if missed else MET


def as_json(data: Any) -> str:
    """The text of a file."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def save(path: Path, text: str, page: str | None) -> None:
    """Write results, and a page beside them, each whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    if page is not None:
        write_text(path.with_suffix(".md"), page)


def bar(console: Console) -> Progress:
    """A bar for the terminal: the item, how many of how many, and for how long."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=console)


def say(console: Console, *lines: str) -> None:
    """Print lines as they are."""
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def say_bars(console: Console, bars: Iterable[tuple[str, str, bool]]) -> bool:
    """Print each bar, and what was measured; whether one is missed."""
    bars = list(bars)
    say(console, *(f"{'met   ' if met else 'MISSED'} {bar}: {measured}" for bar, measured, met in bars))
    return not all(met for *_, met in bars)


def table(head: str, rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a Markdown table, of its first one and cells."""
    cells = ([str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)
    return [head, "|---" * (head.count("|") - 1) + "|", *(f"| {' | '.join(row)} |" for row in cells)]


def about_run(**more: Any) -> dict[str, Any]:
    """The date, the machine and the versions of a run, and more, for its results."""
    measured = facts()
    return {key: measured[key] for key in ("date", "machine", "versions")} | more


def listed(versions: dict[str, str]) -> str:
    """The versions for a page."""
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def stamp(root: Path = ROOT) -> tuple[str, str | None, str]:
    """The fields of `Stamped`, for an outcome that ends now."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), commit_of_code(root), versions()


def is_of_this_tree(of: str | None, root: Path = ROOT) -> bool:
    """True if nothing but results has changed since that commit in the repository with this root."""
    if of is None or of.endswith("+"):
        return False
    command = ["git", "diff", "--quiet", of, "--", ".", ":!benchmarks/results"]
    return subprocess.run(command, cwd=root, capture_output=True, check=False).returncode == 0


def commit_of_code(root: Path = ROOT) -> str | None:
    """The commit as `benchmarks.run.commit` has it, but results that are written are no edit."""
    found = commit(root)
    clean = found.removesuffix("+") if found else None
    return clean if is_of_this_tree(clean, root) else found


@functools.cache
def versions() -> str:
    """The versions of Python, the machine and the packages."""
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}; {', '.join(found)}"
