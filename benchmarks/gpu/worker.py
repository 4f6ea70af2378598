"""A process that does items of correctness and judging: `python -m benchmarks.gpu.worker DEVICE`, with "tiny" or not.

A kernel may ruin the process that it runs in, so that the parent starts another one after an item that raised.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.campaign import PACKAGES
from benchmarks.gpu import correctness, judging
from benchmarks.gpu.device import Device
from benchmarks.gpu.outcome import LEFT_OUT, LeftOut, Outcome, raised
from benchmarks.worker import answer_orders
from parity_tests.harness.numbers.numerics import settings

KINDS: dict[str, Callable[..., Outcome]] = {
    "candidate": correctness.candidate,
    "placed": correctness.placed,
    "tf32": correctness.tf32,
    "memory": correctness.memory,
    "tests": correctness.tests,
    "cost": judging.cost,
    "mistakes": judging.mistakes,
}


def facts(device: Device) -> dict[str, Any]:
    """Return the facts of the device: its name, versions and settings, and why it cannot be used, if it cannot."""
    missing = device.missing()
    installed = {each.name.lower() for each in importlib.metadata.distributions()}
    return {
        "missing": missing,
        "device": device.name if missing else device.module.get_device_name(),
        "versions": {"python": platform.python_version(), "CUDA": torch.version.cuda}
        | {name: importlib.metadata.version(name) for name in PACKAGES if name in installed},
        "settings while judged": {name: str(value) for name, value in settings().items()},
    }


def outcome(device: Device, tiny: bool, kind: str, options: dict[str, Any]) -> Outcome:
    """Do an item. What it raises is its outcome."""
    try:
        return KINDS[kind](device, tiny, **options)
    except LeftOut as reason:
        return Outcome(LEFT_OUT, str(reason))
    except Exception as error:
        return raised(error)


def answering(device: Device, tiny: bool) -> Callable[[dict[str, Any]], Any]:
    """The answer to each order: facts, or an item."""

    def answer(order: dict[str, Any]) -> Any:
        if order["do"] == "facts":
            return facts(device)
        return outcome(device, tiny, order["kind"], order["options"]).as_data()

    return answer


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of the frameworks
    answer_orders(answering(Device(sys.argv[1]), "tiny" in sys.argv))
