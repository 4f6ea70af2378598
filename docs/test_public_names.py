"""Every public name and every check has a page on the site, which `mkdocs build --strict` can make."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType

import api_pages
import pytest
import site_hooks

import gradparity
import parity_tests
from parity_tests.harness.checks import CHECKS

ROOT = Path(__file__).resolve().parent.parent
LISTED = {"jax_ref.aten"}  # on docs/aten.md
NEEDS = {"jax_ref.gpu": "triton", "torch_impl.gpu": "triton"}
NOT_PUBLIC = ("jax_ref.examples", "torch_impl.derivatives.functions", "torch_impl.examples", "torch_impl.native")


def on_pages(page: str) -> set[str]:
    return {name.rpartition(".")[2] for name in api_pages.api_pages()[page]}


def test_every_name_of_the_face():
    pages = api_pages.api_pages()
    grouped = [name for group in api_pages.GROUPS.values() for name in group]
    assert len(grouped) == len({*grouped})
    assert {*gradparity.__all__} == {*parity_tests._MODULES} == pages.keys() - {*api_pages.PACKAGES}
    assert all(on_pages(name) == {name} for name in gradparity.__all__)


def test_the_members_on_a_page_are_there_and_are_all_that_users_call():
    for name, members in api_pages.MEMBERS.items():
        assert [member for member in members if not hasattr(getattr(gradparity, name), member)] == []
    assert api_pages.MEMBERS["OpSpec"] == ("from_torch",)
    pages = [path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]]
    called = {found for page in pages for found in re.findall(r"\breport\.([a-z_]+)\(", page)}
    assert len(called) >= 3
    assert called <= {*api_pages.MEMBERS["Report"]}


def test_the_list_of_the_names_leads_to_every_page_and_says_what_each_is():
    (index, *pages) = api_pages.generated()
    assert index[0] == "api/index.md"
    rows = dict(re.findall(r"^\| \[[\w.]+\]\((.+?)\) \| (.+) \|$", index[1], re.MULTILINE))
    assert {f"api/{to}" for to in rows if not to.startswith("../")} == {place for place, _ in pages}
    assert all(text.endswith(".") for text in rows.values()), rows


@pytest.mark.parametrize("package", api_pages.PACKAGES)
def test_every_name_of_a_package(package: str):
    if package in NEEDS:
        pytest.importorskip(NEEDS[package])
    module = importlib.import_module(package)
    own = {name for name in dir(module) if not name.startswith("_") and name != "TYPE_CHECKING"}
    values = {name: getattr(module, name) for name in own if name not in ("attn_native", "attn_native_implicit")}
    foreign = {
        name
        for name, value in values.items()
        if isinstance(value, ModuleType)
        or not str(getattr(value, "__module__", package)).startswith(package.partition(".")[0])
    }
    if not hasattr(module, "__path__"):  # a module: what it imports is not its own
        foreign |= {name for name, value in values.items() if getattr(value, "__module__", None) != package}
    assert own - foreign - {"annotations"} == on_pages(package)


def test_every_package_that_exports_names_is_known():
    found = set()
    for file in [*ROOT.glob("jax_ref/**/__init__.py"), *ROOT.glob("torch_impl/**/__init__.py")]:
        package = ".".join(file.parent.relative_to(ROOT).parts)
        tree = ast.parse(file.read_text(encoding="utf-8"))
        exports = any(isinstance(s, ast.ImportFrom) and any(n.asname == n.name for n in s.names) for s in tree.body)
        if exports and not package.startswith(NOT_PUBLIC):
            found.add(package)
    modules = {package for package in api_pages.PACKAGES if not (ROOT / package.replace(".", "/")).is_dir()}
    assert found == {*api_pages.PACKAGES} - modules | LISTED


def test_every_operator_of_aten_is_listed():
    from jax_ref import aten

    page = (ROOT / "docs/aten.md").read_text(encoding="utf-8")
    names = {name.removeprefix("aten::").partition(".")[0] for name in aten.OPERATORS}
    assert len(names) > 500
    assert [name for name in sorted(names) if not hasattr(aten, name)] == []
    assert [name for name in sorted(names) if f" {name}," not in page and f" {name} |" not in page] == []


def test_every_check_has_a_page():
    places = {place for place, _ in site_hooks._generated_pages_of_checks()}
    assert places == {"checks/index.md", *(f"checks/{name}.md" for name in CHECKS)}
    assert {*site_hooks._check_names()} == {*CHECKS}
