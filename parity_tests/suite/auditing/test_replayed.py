"""Every operator of a right step is right again when it is replayed from its file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from parity_tests.auditing.audit import audit
from parity_tests.auditing.files import called_in, save
from parity_tests.auditing.replayed import NotReplayed, operator_named, replayed
from parity_tests.auditing.stored import Stored
from parity_tests.certificate.certificate import Row
from parity_tests.cli.failure_file import read
from parity_tests.suite.auditing.steps import Softmax, made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_what_is_replayed_is_what_ran(dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = made()
    with monkeypatch.context() as patched:  # only what is wrong is kept
        patched.setattr(Stored, "row", lambda self, underflow: Row(self.name, 1.0, "wrong"))
        found = audit(model.to(dtype), ids)
    kept = [each for each in found.operations if each.facts is not None]
    assert len(kept) > 80
    for each in kept:
        save(each, tmp_path / "operation.npz")
        facts, arrays = read(tmp_path / "operation.npz")
        name, called = called_in(facts)
        function = Softmax.apply if name == "SoftmaxBackward" else operator_named(name)
        rows = replayed(function, called, arrays)
        assert all(row.agrees for row in rows), (name, *map(str, rows))


@pytest.mark.parametrize("name", ["aten::from_file", "aten::sinn", "other::sin", "aten::mul.Missing", "sin", ""])
def test_only_operators_that_an_audit_judges_are_run(name: str) -> None:
    with pytest.raises(NotReplayed, match=r"no operator of PyTorch's; say which function it is now: --case"):
        operator_named(name)
