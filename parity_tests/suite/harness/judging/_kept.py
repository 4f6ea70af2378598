"""What the tests of kept certificates share: specs, their folder, and whether a run has read a certificate there."""

from __future__ import annotations

import json
from pathlib import Path

import jax.numpy as jnp

from parity_tests import OpSpec
from parity_tests.harness.judging import kept_certificates
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.report.results import Row

MARK = 12345  # comparisons, which no certificate of these tests has
folder_of_jax = kept_certificates.folder  # the suite keeps none, see its conftest


def certificate_of(spec: OpSpec, name: str = "vjp", seed: int = 0) -> Row:
    """What the oracle's own row is in a run of its own."""
    return Oracles(spec, "cpu", seed).certified_oracle(FLOAT64).certificate(name).row


def is_kept(spec: OpSpec, folder: Path, name: str = "vjp", seed: int = 0) -> bool:
    """Does a run read one of the files in the folder? It does if it reports the number that is written there."""
    for file in folder.iterdir():
        file.write_text(json.dumps(json.loads(file.read_text()) | {"comparisons": MARK}))
    return certificate_of(spec, name, seed).comparisons == MARK


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def sine(**fields) -> OpSpec:
    return OpSpec(**({"name": "sine", "primal": lambda x: jnp.sin(x), "signature": "(n)->(n)"} | fields))


RIGHT = sine(vjp=lambda x, y_bar: (y_bar * jnp.cos(x),))
WRONG = sine(vjp=lambda x, y_bar: (y_bar * (jnp.cos(x) + 1e-6),))
