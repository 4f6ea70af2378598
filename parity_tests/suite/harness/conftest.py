"""A fixture for files whose tests share specs: the oracle of each is traced and certified once for all of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import pytest

from parity_tests.harness.judging import judge
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.specs.spec import OpSpec

_MOST = 8
_KNOWN: OrderedDict[Hashable, tuple[OpSpec, Oracles]] = OrderedDict()  # a spec that is kept has its identity to itself


def _shared(spec: OpSpec, device: str, seed: int, *samples: Callable[..., Any]) -> Oracles:
    key = id(spec), device, seed, samples
    if key not in _KNOWN:
        _KNOWN[key] = spec, Oracles(spec, device, seed, *samples)
    _KNOWN.move_to_end(key)
    while len(_KNOWN) > _MOST:
        _KNOWN.popitem(last=False)
    return _KNOWN[key][1]


@pytest.fixture
def certified_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that patches something has oracles of its own, so that no other meets what it has planted."""
    with pytest.MonkeyPatch.context() as patch:
        if "monkeypatch" not in request.fixturenames:
            patch.setattr(judge, "Oracles", _shared)
        yield
