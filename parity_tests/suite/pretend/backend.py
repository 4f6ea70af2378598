"""The Python side of the device "pretend", which `import torch` finds by an entry point, as it finds those of vendors.

Nothing else is imported here: PyTorch is still importing itself.
"""

from __future__ import annotations

import contextlib
import os
import types
from collections.abc import Iterator

import torch

LIBRARY = "PRETEND_LIBRARY"  # the environment variable with the path of the compiled pretend.cpp


def register() -> None:
    """Make "pretend" a device of PyTorch in this process, with the module `torch.pretend`."""
    torch.ops.load_library(os.environ[LIBRARY])
    torch.utils.rename_privateuse1_backend("pretend")
    torch._register_device_module("pretend", _module())
    torch.utils.generate_methods_for_privateuse1_backend()


def _module() -> types.ModuleType:
    module, ops = types.ModuleType("torch.pretend"), torch.ops.pretend
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module.device_count = lambda: 2
    module.current_device = ops.current_device
    module.set_device = ops.set_device
    module.device = _device
    module.synchronize = lambda device=None: None
    module.memory_allocated = lambda device=None: ops.memory_allocated()
    module.transfers = ops.transfers
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    # Random numbers are those of the CPU.
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.get_rng_state = lambda device=None: torch.get_rng_state()
    module.set_rng_state = lambda state, device=None: torch.set_rng_state(state)
    return module


@contextlib.contextmanager
def _device(device: int | torch.device) -> Iterator[None]:
    index = device.index if isinstance(device, torch.device) else device
    before = torch.ops.pretend.current_device()
    torch.ops.pretend.set_device(before if index is None else index)
    try:
        yield
    finally:
        torch.ops.pretend.set_device(before)
