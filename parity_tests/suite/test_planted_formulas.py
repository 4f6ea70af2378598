"""A mistake planted in derivatives.yaml is caught, by the check that is meant for it."""

from __future__ import annotations

import shutil
from typing import NamedTuple

import pytest
import torch

from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.findings import Verdict
from parity_tests.suite.conftest import run_attn
from torch_impl.native.build import HERE as NATIVE
from torch_impl.native.build import load, toolchain_missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(toolchain_missing() is not None, reason=f"compiles: {toolchain_missing()}"),
]


class Planted(NamedTuple):
    """In the yaml entry of `operator`, `old` becomes `new`; the check `caught_by` notices, those of `passes` do not."""

    operator: str
    old: str
    new: str
    caught_by: str
    passes: tuple[str, ...]


PLANTED = {
    "wrong_sign": Planted("attn", "grad_output,", "grad_output.neg(),", "vjp", ("forward", "jvp")),
    "dropped_cotangent": Planted("attn", "grad_attn,", "Tensor(),", "vjp_partial", ("forward", "jvp")),
    "wrong_tangent": Planted("attn", "v_p, v_t,", "v_p, v_t.neg(),", "jvp", ("forward", "vjp", "vjp_of_vjp")),
    "tangent_for_primal": Planted("attn", "k_p, k_t,", "k_t, k_p,", "jvp", ("forward", "vjp")),
    "no_jvp": Planted("attn", "output, attn:", "#", "jvp", ("forward", "vjp")),
    "mask_of_another": Planted(
        "attn",
        "grad_input_mask",
        "std::array<bool, 3>({grad_input_mask[1], grad_input_mask[1], grad_input_mask[2]})",
        "input_subsets",
        ("forward", "vjp", "jvp"),
    ),
    "dropped_second_cotangent": Planted(
        "attn_backward", "grad_v_bar,", "Tensor(),", "vjp_of_vjp", ("vjp", "jvp_of_vjp")
    ),
    "wrong_second_tangent": Planted(
        "attn_backward", "attn_p, attn_t,", "attn_p, attn_t.neg(),", "jvp_of_vjp", ("vjp", "jvp")
    ),
    "no_second_jvp": Planted("attn_backward", "q_bar, k_bar, v_bar:", "#", "jvp_of_vjp", ("vjp", "vjp_of_vjp")),
}


def _entry(text: str, operator: str) -> str:
    """The entry of an operator in a yaml file, without the comments after it."""
    (entry,) = (e for e in text.split("\n- ")[1:] if e.split("(")[0].split(": ")[1].split("::")[-1] == operator)
    return "\n- " + entry.split("\n\n")[0].rstrip() + "\n"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory):
    """One library with a copy of attn and of attn_backward for each mistake, in the namespace planted."""
    folder = tmp_path_factory.mktemp("planted")
    shutil.copytree(NATIVE / "csrc", folder / "csrc")
    texts = {name: (NATIVE / name).read_text() for name in ("native_functions.yaml", "derivatives.yaml")}
    for mistake, (operator, old, new, *_) in PLANTED.items():
        for copied in ("attn", "attn_backward"):
            functions, derivatives = (_entry(texts[name], copied) for name in texts)
            if copied == operator:
                assert old in derivatives
                derivatives = derivatives.replace(old, new)
            texts["native_functions.yaml"] += functions.replace(f"::{copied}(", f"::{copied}_{mistake}(")
            texts["derivatives.yaml"] += derivatives.replace(f"name: {copied}(", f"name: {copied}_{mistake}(").replace(
                "gradparity::attn_backward(", f"gradparity::attn_backward_{mistake}("
            )
    for name, text in texts.items():
        (folder / name).write_text(text)
    for path in [*folder.glob("*.yaml"), *folder.glob("csrc/*")]:
        path.write_text(path.read_text().replace("gradparity", "planted"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_EXTENSIONS_DIR", str(folder / "cache"))
        load(folder)
    return torch.ops.planted


def test_the_copy_is_right(planted) -> None:
    report = run_attn([Candidate(planted.attn, "copy", limits={})], dtypes=["float64"])
    assert report.passed, str(report)


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistake_is_caught(planted, mistake: str) -> None:
    *_, caught_by, passes = PLANTED[mistake]
    candidate = Candidate(getattr(planted, f"attn_{mistake}"), mistake, limits={})
    report = run_attn([candidate], [caught_by, *passes], ["float64"])
    rows = {row.check: row for row in report.rows if row.candidate == mistake}
    assert not rows.pop(caught_by).passed, str(report)
    assert {row.verdict for row in rows.values()} == {Verdict.PASS}, str(report)
    assert not report.passed
