"""The pages of the public names: which names are on each, and which members of a class its users call."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Packages and modules whose public names have a page; those of ATen's operators are on docs/aten.md.
PACKAGES = (
    "jax_ref",
    "jax_ref.ffi",
    "jax_ref.gpu",
    "jax_ref.nn.equinox",
    "jax_ref.nn.flax",
    "jax_ref.sharded",
    "torch_impl",
    "torch_impl.derivatives",
    "torch_impl.gpu",
    "torch_impl.nn",
)
# The names of gradparity, by what they are for.
GROUPS = {
    "Check a function": ("crosscheck", "assert_parity", "Report", "Verdict", "ParityError", "OracleError"),
    "Describe an operator": ("OpSpec", "Input", "Output", "Domain", "integer", "AxisSize", "to_tolerance"),
    "Describe a candidate": (
        "Candidate",
        "JaxCandidate",
        "WarpCandidate",
        "MLXCandidate",
        "DLPackCandidate",
        "ArrayCandidate",
        "Arithmetic",
        "configured",
    ),
    "Port and audit a model": ("to_jax", "Converted", "CannotConvert", "certify", "Certificate", "audit", "Audit"),
}
# The members that users call; the others of these classes, and of those that are not here, are for gradparity itself.
MEMBERS = {
    "Audit": ("faults", "passed", "raise_if_failed"),
    "Certificate": ("passed", "raise_if_failed"),
    "Converted": ("split", "load", "state_dict"),
    "OpSpec": ("from_torch",),
    "Report": (
        "passed",
        "failed",
        "failures",
        "exit_code",
        "raise_if_failed",
        "save_failures",
        "as_dict",
        "from_dict",
        "as_json",
        "to_json",
        "to_html",
        "to_markdown",
    ),
}


def api_pages() -> dict[str, list[str]]:
    """Return the pages of the public names: the names on each, as MkDocs finds them in the source."""
    import parity_tests

    names = [name for group in GROUPS.values() for name in group]
    pages = {name: [f"{parity_tests._MODULES[name]}.{name}"] for name in names}
    return pages | {package: list(_exported(package)) for package in PACKAGES}


def generated() -> Iterator[tuple[str, str]]:
    """Yield the pages, each with its place, and first the one that lists them."""
    yield "api/index.md", _index()
    for name, members in api_pages().items():
        title = f"# {name}\n\n" if len(members) > 1 else ""
        shown = "" if name in PACKAGES else f"\n      members: {list(MEMBERS.get(name, ())) or 'false'}"
        options = f"\n    options:\n      heading_level: {2 if title else 1}{shown}\n"
        yield f"api/{name}.md", title + "\n".join(f"::: {member}{options}" for member in members)


def _index() -> str:
    """The list of the public names, with what the first line of each docstring says."""
    import parity_tests

    parts = ["# The API\n\nThe names that you import from `gradparity`, and the packages that come with it.\n"]
    for title, names in GROUPS.items():
        rows = [f"| [{name}]({name}.md) | {_summary(parity_tests._MODULES[name], name)} |" for name in names]
        parts.append(f"## {title}\n\n| name | purpose |\n|---|---|\n" + "\n".join(rows) + "\n")
    rows = [f"| [{package}]({package}.md) | {_summary(package)} |" for package in PACKAGES]
    rows.append(f"| [jax_ref.aten](../aten.md) | {_summary('jax_ref.aten')} |")
    parts.append("## Packages\n\n| package | purpose |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _summary(module: str, name: str = "") -> str:
    """The first paragraph of a docstring: of a name of a module, or of the module itself."""
    tree = ast.parse(_file(module).read_text(encoding="utf-8"))
    found = [each for each in tree.body if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == name]
    text = ast.get_docstring(found[0] if name else tree) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", r"\|")


def _file(module: str) -> Path:
    folder = ROOT / module.replace(".", "/")
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def _exported(package: str) -> Iterator[str]:
    """What a package exports, by the modules that define it; of a module that is public itself, what it defines."""
    file = _file(package)
    is_package = file.name == "__init__.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nested = [inner for statement in tree.body if isinstance(statement, ast.If) for inner in statement.body]
    for statement in [*tree.body, *nested]:
        match statement:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith(f"{package}."):
                yield from (f"{module}.{name.name}" for name in names if name.asname == name.name)
            case ast.AnnAssign(target=ast.Name(id=name)) if is_package:  # made when it is first used
                yield f"{package}.{name}"
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) if not is_package and name[0] != "_":
                yield f"{package}.{name}"
