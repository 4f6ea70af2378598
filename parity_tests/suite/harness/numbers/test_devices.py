"""Which devices there are, as PyTorch says; `suite/pretend` judges on one."""

from __future__ import annotations

import pytest
import torch

from parity_tests.harness.numbers import devices

VERSION = f"PyTorch {torch.__version__}"


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cpu", None),
        ("cuda", None),
        ("cuda:1", None),
        ("cuda:2", f"{VERSION} sees 2 of CUDA, counted from 0"),
        ("cpu:0", "the CPU has no index"),
        ("cuda:one", "a device is written NAME or NAME:INDEX"),
        ("cuda:", "a device is written NAME or NAME:INDEX"),
        ("cudda", f"{VERSION} has no such device (did you mean 'cuda'?)"),
        ("privateuseone", f"{VERSION} has no such device"),
        ("Tensor", f"{VERSION} has no such device"),
        ("", f"{VERSION} has no such device"),
    ],
)
def test_why_a_device_is_missing(name: str, why: str | None):
    assert devices.missing(name) == why


@pytest.mark.usefixtures("two_gpus")
def test_cuda_needs_no_jax_on_the_gpu():
    """The oracle is on the CPU: PyTorch's CUDA beside a JAX that sees the CPU alone is enough."""
    assert {"cpu", "cuda"} <= set(devices.available())
    devices.check("cuda:1")


def test_a_device_that_is_missing_is_an_error_that_names_the_others():
    text = r"^device xp cannot be judged here: .* \(did you mean 'xpu'\?\); available: cpu"
    with pytest.raises(ValueError, match=text):
        devices.check("xp")


def test_a_tensor_is_on_a_device_of_its_type_and_index():
    x = torch.empty(0, device="meta")
    assert devices.is_on(x, "meta")
    assert not devices.is_on(x, "cpu")
    assert not devices.is_on(x, "meta:1")


def test_what_a_device_lacks_is_told_in_its_own_words(monkeypatch: pytest.MonkeyPatch):
    def zeros(*_: int, dtype: torch.dtype, device: str) -> None:
        raise TypeError(f"no {dtype} on {device}\nand more")

    assert devices.lacks("cpu", "float64") is None
    monkeypatch.setattr(torch, "zeros", zeros)
    assert devices.lacks.__wrapped__("mps", "float64") == "mps has no float64: no torch.float64 on mps"


def test_the_memory_of_the_cpu_is_not_counted():
    assert devices.memory_allocated("cpu") is None
    assert devices.described("cpu")
