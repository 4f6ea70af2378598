"""The environment of a run, on which verdicts depend besides the code: versions, devices, precision settings."""

from __future__ import annotations

import datetime
import platform
from importlib import metadata
from typing import Any

import jax
import numpy as np
import torch

from parity_tests.harness.numbers import devices
from parity_tests.harness.numbers.numerics import settings
from parity_tests.harness.specs.seeds import shown


def environment(names: tuple[str, ...], seed: int) -> dict[str, Any]:
    """Versions, hardware, and the settings that `numerics.pinned` holds during a comparison."""
    try:
        version = metadata.version("gradparity")
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        version = "not installed"
    return {
        "gradparity": version,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "torch": str(torch.__version__),  # of a class of its own, which whoever reads this would have to import
        "numpy": np.__version__,
        "platform": platform.platform(),
        "devices": {name: devices.described(name) for name in names},
        "settings": settings(),
        "seed": shown(seed),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
