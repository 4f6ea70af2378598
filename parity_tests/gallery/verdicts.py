"""The verdicts that are expected of the cases, and those of a report."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).parent / "cases"
EXPECTED = ROOT / "benchmarks" / "results" / "gallery.json"
PAGE = ROOT / "docs" / "gallery.md"
HEAD = "| package | version | function | verdict | what fails | found |\n|---|---|---|---|---|---|\n"


@dataclass(frozen=True)
class Published:
    """A published function and its verdict.

    Attributes:
        case: the name of its case file, without .py.
        package: the distribution that it comes from.
        version: the one that was judged.
        function: its name there.
        failed: by check, the verdicts that are not held to be right, by the format: {"vjp": {"float64": "MISMATCH"}}.
        found: the numbers in docs/found.md of what fails.
        comparisons: how many numbers, or arrays of them, were compared.
        quick: True if it was judged by `gradparity check --quick`, and not by default settings.
        note: what is to be said of it beside that, as whose defect it is.
        requires: packages that the case needs besides that one and what that one requires.
        alone: True if its package is installed without its requirements, which do not install beside PyTorch and JAX.
        by_hand: why no run of CI judges it, as what its package downloads; empty if one does.
        never_quick: True if its defect shows only at samples that `--quick` leaves out, and it is judged with all.
    """

    case: str
    package: str
    version: str
    function: str
    failed: Mapping[str, Mapping[str, str]]
    found: Sequence[int]
    comparisons: int
    quick: bool
    note: str = ""
    requires: Sequence[str] = ()
    alone: bool = False
    by_hand: str = ""
    never_quick: bool = False

    @property
    def requirements(self) -> list[str]:
        """The requirements of its case, as pip takes them: its package in the version of the verdict, and others."""
        return [f"{self.package}=={self.version}", *self.requires]

    @property
    def file(self) -> Path:
        """Its case file."""
        return CASES / f"{self.case}.py"

    @property
    def row(self) -> str:
        """Its row in the table of docs/gallery.md."""
        fails = ", ".join(self.failed)
        verdicts = sorted({verdict for formats in self.failed.values() for verdict in formats.values()})
        verdict = ", ".join(verdicts or ["PASS"]) + (" (quick)" if self.quick else "")
        found = ", ".join(map(str, self.found))
        remarks = "; ".join(part for part in (fails, self.note) if part)
        return f"| {self.package} | {self.version} | `{self.function}` | {verdict} | {remarks} | {found} |"

    def why_not_judged(self) -> str | None:
        """Say why the installed packages are not those of the verdict; None if they are."""
        try:
            installed = metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return f"{self.package} is not installed"
        if installed != self.version:
            return f"{self.package} {installed} is installed, and the verdict is of {self.version}"
        return None

    def judged_as(self, report: Mapping, quick: bool) -> Published:
        """Return the same function with the verdict of a report, and with the version that is installed."""
        return replace(
            self,
            version=metadata.version(self.package),
            failed=failures(report),
            comparisons=sum(row["comparisons"] for row in report["rows"]),
            quick=quick,
        )

    def differences(self, report: Mapping) -> list[str]:
        """Return where a report differs from what is expected, of the checks and formats that it has judged."""
        found = failures(report)
        differing = [f"{self.case}: {report['error']}"] if report["error"] else []
        judged = sorted({(row["check"], row["dtype"]) for row in report["rows"] if row["candidate"] != "oracle"})
        for check, dtype in judged:
            verdict, expected = (failed.get(check, {}).get(dtype, "PASS") for failed in (found, self.failed))
            if verdict != expected:
                differing.append(f"{self.case}: {check}, {dtype}: {verdict}, expected {expected}")
        if not judged:
            differing.append(f"{self.case}: nothing was judged")
        return differing


def failures(report: Mapping) -> dict[str, dict[str, str]]:
    """Return the rows of a report that do not pass: by check, the verdict in each format."""
    found: dict[str, dict[str, str]] = {}
    for row in report["rows"]:
        refused_as_declared = row["verdict"] == "UNSUPPORTED" and (row["declared"] or row["listed"])
        if row["verdict"] not in ("PASS", "SKIPPED") and not refused_as_declared:
            check = f"the oracle's {row['check']}" if row["candidate"] == "oracle" else row["check"]
            found.setdefault(check, {})[row["dtype"]] = row["verdict"]
    return found


def expected(path: Path = EXPECTED) -> list[Published]:
    """Return all published functions with what is expected of them."""
    return [Published(**record) for record in json.loads(path.read_text(encoding="utf-8"))]


def table(published: Sequence[Published]) -> str:
    """Return the table of docs/gallery.md."""
    return HEAD + "".join(f"{each.row}\n" for each in published)


def record(published: Sequence[Published]) -> None:
    """Write what is expected, and the table in docs/gallery.md."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(HEAD)
    after = re.sub(r"\A(\|.*\n)*", "", rest)  # without the rows of before
    PAGE.write_text(before + table(published) + after, encoding="utf-8")
    text = json.dumps([asdict(each) for each in published], indent=1, ensure_ascii=False)
    EXPECTED.write_text(text + "\n", encoding="utf-8")
