"""A page in Markdown about each check, in the file of its name: an example that fails, and how to mend it.

The first code block of a page is a case file that the check must catch; the second one, appended to it, must pass.
"""

from __future__ import annotations

from importlib import resources

from parity_tests.harness.checks.check import Check


def as_markdown(check: Check) -> str:
    """Return the page about a check: its name, what it catches, when it runs, the example and the remedy.

    Raises:
        LookupError: the check has no page.
    """
    file = resources.files(__name__) / f"{check.name}.md"
    if not file.is_file():
        raise LookupError(
            f"the check {check.name!r} has no page; write parity_tests/harness/checks/explanations/{check.name}.md"
        )
    body = file.read_text(encoding="utf-8")
    facts = "".join(f"- {line}\n" for line in _facts(check))
    return f"# {check.name}\n\n**It catches** {check.catches}.\n\n{facts}\n{body}"


def _facts(check: Check) -> list[str]:
    """When the check runs, as far as that is not always."""
    facts = []
    if check.on_request:
        facts.append(f"It runs on request only: `--only {check.name}`.")
    if check.costly:
        facts.append("`--quick` leaves it out, because it takes long.")
    if check.only_short:
        facts.append("It judges the 16-bit formats only.")
    elif check.one_dtype:
        facts.append("It judges one format only, since the property does not depend on the format.")
    if check.torch_only:
        facts.append(f"It applies to PyTorch candidates only: {check.torch_only}.")
    if check.not_jax:
        facts.append(f"It applies to all candidates but those in JAX: {check.not_jax}.")
    if check.real_only:
        facts.append(f"It applies to real numbers only: {check.real_only}.")
    return facts or ["It judges every candidate, in every format."]
