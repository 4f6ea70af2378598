"""Implementations in BackendBench's form: right ones pass, wrong and cheating ones do not, and it is said why."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity_tests import Report
from parity_tests.cli.sources.backendbench import BackendBenchOperator, implementations, operator_name
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.judging.selection import select_checks, select_precisions, select_samples
from parity_tests.suite.cli.evaluate.backendbench_operators import CHEATS, IMPLEMENTATIONS, cheating


def _source(text: str, name: str, folder: Path, call: int | None) -> BackendBenchOperator:
    own = folder / name
    own.mkdir(parents=True)
    (own / f"{name}_implementation_v1.py").write_text(text)
    return BackendBenchOperator(folder, name, call)


@pytest.mark.slow
@pytest.mark.parametrize("call", [None, 0], ids=["sizes", "given"])
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_each_implementation_is_judged_and_told_apart(name: str, call: int | None, tmp_path: Path) -> None:
    implementation = IMPLEMENTATIONS[name]
    texts = {"right": implementation.right(name), "wrong": implementation.wrong_backward(name)}
    texts |= {cheat: cheating(name, cheat)[0] for cheat in CHEATS}
    spec, candidates = None, []
    for i, (own, text) in enumerate(texts.items()):
        source = _source(text, name, tmp_path / str(i), call)
        if spec is None:
            spec, (candidate,) = source.load()
            read = source.sample()
        else:
            candidate = read.candidate(source.implementation())
        candidates.append(candidate.named(own, None))
    assert spec is not None
    checks, precisions = select_checks(["forward", "vjp", "shortcuts"]), select_precisions(["float32"])
    plan = Plan(spec, candidates, checks, precisions, "cpu", 0, lambda row: "", samples=select_samples(True))
    report = Report({})
    for _ in report.collect(judge(plan)):
        pass
    found = {record["candidate"]: record for record in report.as_dict()["summary"]}
    assert found["right"]["verdict"] == "PASS", found["right"]["reason"]
    assert (found["wrong"]["verdict"], found["wrong"]["check"]) == ("MISMATCH", "vjp"), found["wrong"]["reason"]
    for cheat in CHEATS:
        assert (found[cheat]["verdict"], found[cheat]["check"]) == ("MISMATCH", "shortcuts"), found[cheat]["reason"]
        assert cheating(name, cheat)[1] in found[cheat]["reason"], found[cheat]["reason"]


def test_the_folders_of_operators(tmp_path: Path) -> None:
    assert operator_name("add__Tensor") == "add.Tensor"
    assert operator_name("add___Tensor") == "add_.Tensor"
    assert operator_name("_softmax__default") == "_softmax.default"
    assert operator_name("relu") == "relu.default"
    (tmp_path / "empty__default").mkdir()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "add__Tensor").mkdir()
    for version in ("v2", "v1"):
        (tmp_path / "add__Tensor" / f"add__Tensor_implementation_{version}.py").touch()
    assert implementations(tmp_path) == {"add__Tensor": tmp_path / "add__Tensor" / "add__Tensor_implementation_v1.py"}
