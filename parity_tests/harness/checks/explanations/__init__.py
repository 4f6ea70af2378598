"""A page in Markdown about each check, in the file of its name: an example that fails, and how to fix it.

The first code block of a page is a case file that the check must catch; the second one, appended to it, must pass.
The first sentence about how to fix it stands by itself: a failure ends with it.
"""

from __future__ import annotations

import re

from parity_tests.harness.checks.check import Check
from parity_tests.harness.report.about import markdown

_REMEDY = "## How to fix it"
_OF_PYTORCH = re.compile("torch|ctx|tensor|detach|Function|contiguous|once_differentiable")
_RAISES = (
    "fix what raises; an input that the operator does not take is left out by OpSpec (domains, sizes, dtypes), or by "
    '--sizes and --dtype; what is meant is listed: limits = {{"{check}": "why"}}'
)


def as_markdown(check: Check) -> str:
    """Return the page about a check: its name, what it catches, when it runs, the example and the remedy.

    Raises:
        LookupError: the check has no page.
    """
    facts = "".join(f"- {line}\n" for line in _facts(check))
    return f"# {check.name}\n\n**It catches** {check.catches}.\n\n{facts}\n{_body(check)}"


def remedy(check: Check) -> str:
    """Return the first sentence about how to fix what a check catches, as a line; its page has the rest.

    Raises:
        LookupError: the check has no page, or its page has no remedy.
    """
    _, heading, rest = _body(check).partition(f"\n{_REMEDY}\n\n")
    if not heading:
        raise LookupError(f"the page about the check {check.name!r} has no heading {_REMEDY!r}")
    paragraph = " ".join(rest.partition("\n\n")[0].split())
    return re.split(r"(?<=[.])\s+(?=[A-Z`])", paragraph)[0].removesuffix(".").replace("`", "")


def to_do(check: Check, framework: str, is_wrong: bool) -> str:
    """Return what to do about a failure of a check: the remedy of its page, if it holds for this framework.

    `is_wrong`: whether a result is; else the candidate raises an exception.
    """
    if not is_wrong:
        return _RAISES.format(check=check.name)
    text = remedy(check)
    return text if framework == "torch" or not _OF_PYTORCH.search(text) else ""


def _body(check: Check) -> str:
    text = markdown(check.name)
    if not text:
        raise LookupError(
            f"the check {check.name!r} has no page; write parity_tests/harness/checks/explanations/{check.name}.md"
        )
    return text


def _facts(check: Check) -> list[str]:
    """When the check runs, as far as that is not always."""
    facts = []
    if check.on_request:
        facts.append(f"It runs on request only: `--only {check.name}`.")
    if check.costly:
        facts.append("`--quick` leaves it out, because it takes long.")
    if check.only_short:
        facts.append("It judges the 16-bit dtypes only.")
    elif check.one_dtype:
        facts.append("It judges one dtype only, since the property does not depend on the dtype.")
    if check.torch_only:
        facts.append(f"It applies to PyTorch candidates only: {check.torch_only}.")
    if check.not_jax:
        facts.append(f"It applies to all candidates but those in JAX: {check.not_jax}.")
    if check.real_only:
        facts.append(f"It applies to real numbers only: {check.real_only}.")
    return facts or ["It judges every candidate, in every dtype."]
