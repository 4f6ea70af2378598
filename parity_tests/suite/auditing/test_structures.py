"""The structures of an operator's arguments are those that PyTorch's own functions see."""

from __future__ import annotations

import pytest
from torch.utils._pytree import tree_leaves, tree_map

from parity_tests.auditing.structures import leaves, mapped


@pytest.mark.parametrize(
    "value", [1, None, (), [1, (2, None), []], {"a": [1], "b": {"c": (2,)}}, ([(1,)], {})], ids=repr
)
def test_structures_are_those_of_pytorch(value: object) -> None:
    assert [*leaves(value)] == tree_leaves(value)
    assert mapped(repr, value) == tree_map(repr, value)
