"""The example that trains: right gradients reach the accuracy that it states, planted ones do not."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import pytest

pytestmark = pytest.mark.slow
for _package in ("flax", "optax"):
    pytest.importorskip(_package, reason=f"{_package} is not installed: pip install 'gradparity[train]'")

from jax_ref.examples import train_copy  # noqa: E402


@pytest.fixture(autouse=True)
def _as_it_is_run():
    with jax.enable_x64(False), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.soak
def test_it_learns():
    result = train_copy.train()
    assert result.accuracy >= train_copy.ACCURACY
    assert len(result.losses) == train_copy.STEPS


def test_a_planted_gradient_keeps_it_from_learning():
    """Far from it: guessing reaches 1 / LETTERS, and right gradients 0.93 in a third of the steps of the example."""
    some = train_copy.STEPS // 3
    assert train_copy.train(steps=some).accuracy > 0.8
    assert train_copy.train(train_copy.planted, steps=some).accuracy < 0.5


def test_the_plot(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'gradparity[train]'")
    train_copy.plot([2.0, 1.0, 0.5], str(tmp_path / "losses.png"))
    assert (tmp_path / "losses.png").stat().st_size > 0


def test_the_command(monkeypatch, capsys):
    """What a reader types, with few steps."""
    few = train_copy.train
    monkeypatch.setattr(train_copy, "train", lambda attention_fn: few(attention_fn, steps=2))
    monkeypatch.setattr(sys, "argv", ["train_copy", "--planted"])
    train_copy.main()
    assert "not learned" in capsys.readouterr().out


def test_no_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"--plot needs matplotlib: pip install 'gradparity\[train\]'"):
        train_copy.plot([1.0], "unused")
