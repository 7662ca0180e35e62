"""Things in a row: as near to where each wants to be as their order allows."""

from __future__ import annotations

from collections.abc import Sequence


def space_out(
    wishes: Sequence[float], weights: Sequence[float], offsets: Sequence[float]
) -> list[float]:
    """Positions that keep the distances of ``offsets``, or more.

    Those that want the same room form a block, which moves to the weighted mean of
    their wishes (pool adjacent violators), so the sum of squares is the least.
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many
    for wish, weight, offset in zip(wishes, weights, offsets, strict=True):
        mean, heavy, count = wish - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, more, others = blocks.pop()
            mean = (mean * heavy + before * more) / (heavy + more)
            heavy, count = heavy + more, count + others
        blocks.append((mean, heavy, count))
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
