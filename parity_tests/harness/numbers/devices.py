"""The devices on which candidates run. PyTorch is asked which there are and what they can do; none is known by name.

The oracle never needs them: it runs on the CPU.
"""

from __future__ import annotations

import functools
import platform

import torch
from torch._C import _autograd

from parity_tests.harness.names import nearest


def check(name: str) -> None:
    """Do nothing if candidates can be judged on a device, NAME or NAME:INDEX.

    Raises:
        ValueError: they cannot; the message says why, and which devices there are.
    """
    reason = missing(name)
    if reason is not None:
        raise ValueError(f"device {name} cannot be judged here: {reason}; available: {', '.join(available())}")


def missing(name: str) -> str | None:
    """Return why nothing can be judged on a device, NAME or NAME:INDEX; None where it is available."""
    version, kind = f"PyTorch {torch.__version__}", name.partition(":")[0]
    if kind not in _types():
        return f"{version} has no such device{nearest(kind, _types())}"
    try:
        index = torch.device(name).index
    except RuntimeError:
        return "a device is written NAME or NAME:INDEX"
    module = torch.get_device_module(kind)
    if not module.is_available():
        return f"{version} sees no {kind.upper()} device"
    if index is None:
        return None
    if kind == "cpu":
        return "the CPU has no index"
    count = module.device_count()
    return None if index < count else f"{version} sees {count} of {kind.upper()}, counted from 0"


def available() -> list[str]:
    """Return the types of the devices on which candidates can be judged."""
    return [name for name in _types() if missing(name) is None]


def is_on(x: torch.Tensor, name: str) -> bool:
    """Return whether a tensor is on a device, NAME or NAME:INDEX; without an index on any of that type."""
    device = torch.device(name)
    return x.device.type == device.type and device.index in (None, x.device.index)


@functools.cache
def lacks(name: str, dtype: str) -> str | None:
    """Return how a device refuses numbers of a format, as Apple's GPUs do those of float64; None if it has them."""
    wanted = getattr(torch, dtype)
    try:
        torch.zeros(1, dtype=wanted, device=name)
    except (RuntimeError, TypeError) as error:
        return f"{name} has no {dtype}: {str(error).splitlines()[0]}"
    return None


def described(name: str) -> str:
    """Return the name of the hardware, as PyTorch tells it."""
    device = torch.device(name)
    named = getattr(torch.get_device_module(device), "get_device_name", None)
    return platform.machine() if device.type == "cpu" or named is None else named(device)


def memory_allocated(name: str) -> int | None:
    """Return the bytes of a device that tensors take; None where PyTorch does not count them, as on the CPU."""
    module = torch.get_device_module(torch.device(name))
    if (of_device := getattr(module, "memory_allocated", None)) is not None:
        return of_device(torch.device(name))
    of_all = getattr(module, "current_allocated_memory", None)  # the name on Apple's GPUs, of which there is one
    return None if of_all is None else of_all()


@functools.cache
def _types() -> list[str]:
    """Return every type of device that PyTorch has a module for, the CPU first."""
    named = {name.lower() for name in _autograd.DeviceType.__members__} | {
        torch._C._get_privateuse1_backend_name()  # of a vendor's package, such as npu
    }
    return ["cpu", *sorted(name for name in named - {"cpu"} if hasattr(torch, name))]
