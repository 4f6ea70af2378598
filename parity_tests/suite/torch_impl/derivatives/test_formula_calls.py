"""A formula may be a stranger's: it calls operators that compute tensors, and none that does anything else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from torch_impl.derivatives import (
    Entry,
    NotEvaluable,
    OperatorRefused,
    bind,
    check_calls,
    entries,
    evaluate,
    jvp,
    lookup,
    parse,
    vjp,
)
from torch_impl.derivatives.allowed import refusal

X = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
# PyTorch's own formulas of nested tensors call it; it makes a tensor of any place in memory that it is told
REFUSED_OF_PYTORCH = {"_nested_view_from_buffer"}
# By name, as an attacker would look for them
HARMFUL = re.compile(
    r"file|print|save|load|storage|pickle|warn|assert|pin_memory|record_|resize|requires_grad|set_data|^set_?$"
    r"|^rand|dropout|bernoulli|multinomial|^normal|uniform_$|^empty|new_empty|empty_like|backward_?hook|sync|^dist_|rref"
    r"|running_stats|copy_from|_unsafe$|make_dual|unpack_dual"
)
HARMLESS = {"_nested_tensor_storage_offsets", "_dropout_backward", "native_dropout_backward", "_philox_uniform_"}


def _operators() -> Iterator[torch._ops.OpOverload]:
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"))
            yield getattr(packet, schema.overload_name or "default")


ALLOWED = [overload for overload in _operators() if refusal(overload) is None]


def _name(overload: torch._ops.OpOverload) -> str:
    return overload._schema.name.removeprefix("aten::")


def test_of_all_operators_of_aten_those_that_compute_are_allowed() -> None:
    names = {_name(overload) for overload in ALLOWED}
    assert len(names) > 700
    assert {"add", "mm", "where", "masked_fill_", "zeros", "view", "tanh_backward", "linalg_svd"} <= names


def test_what_is_allowed_takes_no_text_but_choices_and_makes_tensors_only() -> None:
    texts: set[str] = set()
    for overload in ALLOWED:
        schema = str(overload._schema)
        texts |= set(re.findall(r"\bstr\??(?:\[\])? (\w+)", schema))
        assert not re.search(r"\b(Storage|Generator|Stream|Dict|Any|Future|RRef|__torch__\S*)\b", schema), schema
        results = schema.rpartition("->")[2]
        assert "Tensor" in results or _name(overload) == "_nested_get_ragged_idx", schema
        assert not re.search(r"\b(int|float|bool|str|Scalar|SymInt)\b", results) or "Tensor" not in results, schema
    assert texts <= {
        *("UPLO", "approximate", "driver", "indexing", "interpolation", "mode", "norm", "ord", "pad_mode", "padding"),
        *("padding_mode", "padding_side", "reduce", "rounding_mode", "side"),
    }


def test_what_is_allowed_writes_to_its_first_argument_or_to_nothing() -> None:
    for overload in ALLOWED:
        arguments = overload._schema.arguments
        written = [one.name for one in arguments if one.alias_info is not None and one.alias_info.is_write]
        assert written in ([], [arguments[0].name]), overload._schema
        assert not written or _name(overload).endswith("_"), overload._schema
        assert not any(one.is_out for one in arguments), overload._schema


def test_nothing_with_a_harmful_name_is_allowed() -> None:
    found = {_name(overload) for overload in ALLOWED if HARMFUL.search(_name(overload))}
    assert found <= HARMLESS


def test_nothing_that_draws_or_keeps_running_statistics_is_allowed() -> None:
    for overload in ALLOWED:
        names = {argument.name for argument in overload._schema.arguments}
        assert not names & {"generator", "momentum", "exponential_average_factor"}, overload._schema
        drawn = torch.Tag.nondeterministic_seeded in overload.tags
        assert not drawn or _name(overload).endswith("_backward"), overload._schema


def test_no_operator_of_another_namespace_is_allowed() -> None:
    assert refusal(torch.ops.prims.sin.default) is not None
    with pytest.raises(NotEvaluable, match=r"cannot evaluate prims::sin: only operators of ATen are called"):
        evaluate(parse("prims::sin(x)"), {"x": X})


@pytest.mark.slow
def test_the_calls_of_pytorchs_own_formulas_are_allowed() -> None:
    refused: set[str] = set()
    own: tuple[Entry, ...] = entries()
    assert len(own) > 700
    for formula in (formula for entry in own for formula in (*entry.vjps, *entry.jvps)):
        try:
            check_calls(parse(formula.text))
        except OperatorRefused as error:
            refused.add(str(error).split()[0].removeprefix("at::"))
    assert refused <= REFUSED_OF_PYTORCH


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('at::from_file("{path}", true, 4).zero_()', "takes text, such as the name of a file"),
        ('at::from_file("{path}", true, 100)', "takes text"),
        ('at::_print("text")', "takes text"),
        ('at::save(x, "{path}")', "takes text"),
        ('at::warn("text")', "takes text"),
        ("at::empty({4}, x.options())", "gives entries that nobody has computed"),
        ("at::empty_like(x)", "gives entries that nobody has computed"),
        ("x.new_empty({4})", "gives entries that nobody has computed"),
        ("x.resize_({9})", "gives entries that nobody has computed"),
        ("x.set_(x)", "may change what belongs to somebody else"),
        ("x.requires_grad_(true)", "may change what belongs to somebody else"),
        ("x.retain_grad()", "may change"),
        ("at::_copy_from(x, x, false)", "may change"),
        ("at::batch_norm(x, x, x, x, x, true, 0.1, 0.1, false)", "may change"),
        ("at::rand({3})", "draws random numbers"),
        ("at::dropout(x, 0.5, true)", "draws random numbers"),
        ("x.normal_()", "draws random numbers"),
        ("at::manual_seed(3)", "does not make tensors"),
        ("at::_sparse_csr_tensor_unsafe(x, x, x, {3, 3})", "may change"),
        ("x.backward()", "does not make tensors"),
    ],
)
def test_a_harmful_call_is_refused_before_and_while_it_is_evaluated(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"sixteen bytes...")
    tree = parse(text.replace("{path}", str(file)))
    seed = torch.random.get_rng_state()
    with pytest.raises(OperatorRefused, match=reason):
        check_calls(tree)
    with pytest.raises(OperatorRefused, match=reason):
        evaluate(tree, {"x": X.clone()})
    assert file.read_bytes() == b"sixteen bytes..."
    assert list(tmp_path.iterdir()) == [file]
    assert torch.equal(torch.random.get_rng_state(), seed)


def test_an_overload_that_is_refused_among_others_is_refused_when_it_is_meant() -> None:
    """at::add has overloads of tensors, and some of text and of lists."""
    check_calls(parse('at::add("a", "b")'))
    with pytest.raises(OperatorRefused, match="at::add is refused: it takes text"):
        evaluate(parse('at::add("a", "b")'), {})


@pytest.mark.parametrize(
    "text",
    [
        "x.zero_()",
        "x.mul_(2)",
        "at::zero_(x)",
        "x.view({3, 1}).zero_()",
        "x.detach().zero_()",
        "x.data().zero_()",
        "x.contiguous().mul_(2)",
        "xs[0].mul_(2)",
        "x.narrow(0, 0, 1).add_(1)",
        "at::as_strided(x, {2}, {1}).zero_()",
    ],
)
def test_what_a_formula_is_given_it_must_not_write_to(text: str) -> None:
    x = X.clone()
    with pytest.raises(OperatorRefused, match=r"writes to the memory of xs?, .*leave out its last `_`"):
        evaluate(parse(text), {"x": x, "xs": [x]})
    assert torch.equal(x, X)


def test_what_a_formula_has_made_it_may_write_to() -> None:
    found = evaluate(parse("(x > 0).logical_or_(x < -5).logical_not_()"), {"x": X})
    assert found.tolist() == [False, True, False]
    assert evaluate(parse("at::where(x > 0, x, x).masked_fill_(x < 0, 0)"), {"x": X}).tolist() == [1, 0, 3]


def test_a_formula_that_writes_is_refused_under_vmap_too() -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        return evaluate(parse("x.mul_(2)"), {"x": x})

    def made(x: torch.Tensor) -> torch.Tensor:
        return evaluate(parse("(x * 1).mul_(2)"), {"x": x})

    x = torch.ones(2, 3)
    assert torch.equal(torch.vmap(made)(x), 2 * x)
    with pytest.raises(OperatorRefused, match="writes to the memory of x"):
        torch.vmap(written)(x)


@pytest.mark.slow
def test_the_tangent_of_an_in_place_operator_is_the_formulas_own() -> None:
    entry = lookup("polygamma_")
    arguments = bind(entry, (X.abs(), 1))
    tangent = torch.ones_like(X)
    found = jvp(entry, arguments, [torch.polygamma(1, X.abs())], {"self": tangent})["result"]
    torch.testing.assert_close(found, torch.polygamma(2, X.abs()))
    assert torch.equal(tangent, torch.ones_like(X))


def test_a_refusal_names_the_entry_the_call_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "derivatives.yaml"
    path.write_text("- name: tanh(Tensor self) -> Tensor\n  self: grad.mul_(1 - result * result)\n")
    (entry,) = entries(path)
    message = rf"at::mul_ is refused: it writes to the memory of grad.*; leave out.*\n  {path}:2: tanh, self: grad.mul_"
    with pytest.raises(OperatorRefused, match=message):
        vjp(entry, bind(entry, [X]), [X.tanh()], [torch.ones_like(X)])
