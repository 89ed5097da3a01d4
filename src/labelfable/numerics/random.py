"""Random numbers that do not depend on how the items are cut into shards."""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK_ITEMS = 4096
"""Items that share one generator.  Shards are cut on multiples of this number."""


def block_generators(seed: int, start: int, stop: int) -> list[tuple[slice, np.random.Generator]]:
    """One generator for each block of items in [start, stop), with the block's rows counted from `start`."""
    blocks = []
    for first in range(start - start % BLOCK_ITEMS, stop, BLOCK_ITEMS):
        generator = np.random.default_rng([seed, first // BLOCK_ITEMS])
        rows = slice(max(first, start) - start, min(first + BLOCK_ITEMS, stop) - start)
        blocks.append((rows, generator))
    return blocks


def seed_of(random_state: Any) -> int:
    """One integer from what scikit-learn calls a random state: None, an int, a RandomState or a Generator."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    return int(random_state.randint(2**31 - 1))
