"""A mistake in native_functions.yaml or derivatives.yaml is reported with its file, its line and its entry."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from torch_impl.native.codegen import HERE as NATIVE
from torch_impl.native.codegen import generate
from torch_impl.native.declarations import DeclarationError, read

FUNCTIONS, DERIVATIVES = "native_functions.yaml", "derivatives.yaml"


class BadDeclaration(NamedTuple):
    """In `file`, `old` becomes `new` the first time that it occurs; the error blames a line with `at`."""

    file: str
    old: str
    new: str
    at: str
    says: str


SCHEMA = "(Tensor q, Tensor k, Tensor v) -> (Tensor output, Tensor attn)"
AN_ATTN = f"- name: attn{SCHEMA}"
BAD_DECLARATIONS = {
    "not YAML": BadDeclaration(FUNCTIONS, "attn\n  tags:", "{attn\n  tags:", "tags", "not YAML: "),
    "a tab": BadDeclaration(DERIVATIVES, "  complex", "\tcomplex", "\tcomplex", "not YAML: found a tab"),
    "a key twice": BadDeclaration(
        DERIVATIVES, "  complex: True", "  complex: True\n  complex: True", AN_ATTN, "`complex` appears twice"
    ),
    "not a list": BadDeclaration(DERIVATIVES, "- name", "name", "complex", "not YAML"),
    "no name": BadDeclaration(DERIVATIVES, "- name:", "- nam:", "- nam:", "must begin with `name: ...`"),
    "an unknown key": BadDeclaration(FUNCTIONS, "  tags:", "  tag:", "attn_implicit(", "leftover entries: {'tag'"),
    "an unknown type": BadDeclaration(FUNCTIONS, "(Tensor q", "(Tensr q", "attn_implicit(", "unrecognized type Tensr"),
    "an open bracket": BadDeclaration(FUNCTIONS, "v) ->", "v ->", "attn_implicit(", "Invalid function schema"),
    "an unknown tag": BadDeclaration(FUNCTIONS, "pt2_compliant_tag", "pt2", "attn_implicit(", "illegal tag pt2"),
    "an unknown dispatch key": BadDeclaration(
        FUNCTIONS, "Explicit", "Explict", "::attn(", "unknown dispatch key CompositeExplict"
    ),
    "no namespace": BadDeclaration(FUNCTIONS, "gradparity::", "", "attn_implicit(", "write `func: my_namespace::"),
    "two namespaces": BadDeclaration(FUNCTIONS, "gradparity::", "other::", "::attn(", "one folder has one namespace"),
    "an operator twice": BadDeclaration(FUNCTIONS, "attn_implicit(", "attn(", "::attn(", "attn is declared twice"),
    "a view": BadDeclaration(
        FUNCTIONS, SCHEMA, "(Tensor(a) q) -> Tensor(a)", "attn_implicit(", "returns a view of one"
    ),
    "in place": BadDeclaration(FUNCTIONS, "attn_implicit(Tensor q", "attn_(Tensor(a!) self", "attn_(", ""),
    "a special name": BadDeclaration(
        FUNCTIONS, "attn_implicit(", "expand(", "expand(", "makes an exception of operators named"
    ),
    "a method": BadDeclaration(
        FUNCTIONS, "  tags:", "  variants: method\n  tags:", "attn_implicit(", "a change to at::Tensor"
    ),
    "no such schema": BadDeclaration(
        DERIVATIVES, "(Tensor q, Tensor k,", "(Tensor q,", "attn(", "which declares\n  attn_implicit("
    ),
    "an implicit operator": BadDeclaration(
        DERIVATIVES, "attn(", "attn_implicit(", "attn_implicit(", "no dispatch section"
    ),
    "a derivative of nothing": BadDeclaration(
        DERIVATIVES, "q, k, v:", "q, key, v:", "q, key", "key is neither an argument (q, k"
    ),
    "one tangent of two": BadDeclaration(
        DERIVATIVES, "output, attn:", "output:", AN_ATTN, "number of forward derivatives"
    ),
    "no formula": BadDeclaration(DERIVATIVES, "gradparity::attn_backward(", "#", "q, k, v:", "must be C++ in a string"),
    "a primal without _p": BadDeclaration(DERIVATIVES, "q_p, q_t", "q, q_t", AN_ATTN, "You should use q_p"),
    "grad among two": BadDeclaration(
        DERIVATIVES, "grad_output, ", "grad, ", AN_ATTN, 'mixes use of "grad_RETURN_NAME"'
    ),
    "a third cotangent": BadDeclaration(DERIVATIVES, "grad_attn", "grads[2]", AN_ATTN, "Out of bounds grads"),
    "a size that is a number": BadDeclaration(
        DERIVATIVES, "grad_input_mask)", "q.size(0))", AN_ATTN, "use the SymInt version"
    ),
    "a dispatch section": BadDeclaration(DERIVATIVES, "complex: True", "dispatch: x", AN_ATTN, "remove `dispatch`"),
    "neither true nor false": BadDeclaration(
        DERIVATIVES, "True", "perhaps", AN_ATTN, "must be True or False, got 'perhaps'"
    ),
    "two entries": BadDeclaration(
        DERIVATIVES,
        "\n- name: attn_b",
        f"\n{AN_ATTN}\n  q: grad_output\n- name: attn_b",
        AN_ATTN,
        "has an entry already",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the operators' folder, to be broken."""
    for name in (FUNCTIONS, DERIVATIVES):
        shutil.copy(NATIVE / name, tmp_path)
    shutil.copytree(NATIVE / "csrc", tmp_path / "csrc")
    return tmp_path


def test_the_copy_is_right(folder: Path) -> None:
    assert generate(folder)["ops.h"].replace(folder.name, "native") == generate(NATIVE)["ops.h"]


@pytest.mark.parametrize("bad", BAD_DECLARATIONS.values(), ids=BAD_DECLARATIONS)
def test_it_is_blamed_on_its_line(folder: Path, bad: BadDeclaration) -> None:
    path = folder / bad.file
    comments, entries = path.read_text().split("\n- ", 1)
    text = comments + ("\n- " + entries).replace(bad.old, bad.new, 1)
    assert bad.new in text
    path.write_text(text)
    with pytest.raises(DeclarationError) as raised:
        generate(folder)
    found = re.match(rf"{re.escape(str(path))}:(\d+): ", str(raised.value))
    assert found
    assert bad.at in text.splitlines()[int(found[1]) - 1]
    assert bad.says in str(raised.value)


def test_missing_file(folder: Path) -> None:
    (folder / DERIVATIVES).unlink()
    with pytest.raises(DeclarationError, match=rf"{DERIVATIVES}:1: there is no such file"):
        read(folder)


def test_empty_file(folder: Path) -> None:
    (folder / FUNCTIONS).write_text("# nothing\n")
    with pytest.raises(DeclarationError, match=rf"{FUNCTIONS}:1: must be a list of entries"):
        read(folder)


def test_what_is_read(folder: Path) -> None:
    declarations = read(folder)
    assert declarations.namespace == "gradparity"
    assert [str(f.func.name) for f in declarations.functions] == ["attn_implicit", "attn", "attn_backward"]
    assert declarations.complex_names == {"attn", "attn_backward"}
    lines = (folder / DERIVATIVES).read_text().splitlines()
    for (_, names), line in declarations.formula_lines.items():
        assert lines[line - 1].strip().startswith(", ".join(names) + ":")
    assert len(declarations.formula_lines) == 4
