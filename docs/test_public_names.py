"""Every public name and every check has a page on the site, which `mkdocs build --strict` can make."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

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
    return {name.rpartition(".")[2] for name in site_hooks._api_pages()[page]}


def test_every_name_of_the_face():
    pages = site_hooks._api_pages()
    assert {*gradparity.__all__} == {*parity_tests._MODULES} == pages.keys() - {*site_hooks.PACKAGES}
    assert all(on_pages(name) == {name} for name in gradparity.__all__)


@pytest.mark.parametrize("package", site_hooks.PACKAGES)
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
    modules = {package for package in site_hooks.PACKAGES if not (ROOT / package.replace(".", "/")).is_dir()}
    assert found == {*site_hooks.PACKAGES} - modules | LISTED


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
