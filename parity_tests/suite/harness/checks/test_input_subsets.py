"""Which choices of inputs the check input_subsets tries."""

from __future__ import annotations

import itertools

import pytest

from parity_tests.harness.checks.input_subsets import masks


@pytest.mark.parametrize("count", range(1, 5))
def test_every_choice_of_few_inputs(count):
    assert len(set(masks(count))) == len(masks(count)) == max(2**count - 2, 0)


@pytest.mark.parametrize("count", range(5, 9))
def test_every_pair_of_more(count):
    pairs = {mask for mask in masks(count) if sum(mask) == 2}
    assert len(pairs) == count * (count - 1) // 2


@pytest.mark.slow
@pytest.mark.parametrize("count", [9, 12, 16, 17, 33])
def test_any_three_of_many_have_every_pattern(count):
    chosen = masks(count)
    for three in itertools.combinations(range(count), 3):
        assert len({tuple(mask[i] for i in three) for mask in chosen}) == 8


@pytest.mark.parametrize("count", range(5, 20))
def test_without_pairs_there_is_one_or_all_but_one(count):
    chosen = masks(count, pairs=False)
    assert sorted(map(sum, chosen)) == [1] * count + [count - 1] * count


@pytest.mark.parametrize("count", range(1, 40))
def test_all_and_none_are_tried_otherwise_and_nothing_twice(count):
    chosen = masks(count)
    assert len(set(chosen)) == len(chosen) <= 2 * count + max(4 * count, 28)
    assert all(any(mask) and not all(mask) for mask in chosen)
    assert count == 1 or {1, count - 1} <= {sum(mask) for mask in chosen}
