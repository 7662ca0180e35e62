"""Card of a step in a drawing: its text and its size."""

from __future__ import annotations

from dataclasses import dataclass
from unicodedata import east_asian_width

from noetl.dsl.model import Step
from noetl.net.draw.labels import clean, shorten, write_badges, write_tasks
from noetl.net.draw.theme import BADGE_SIZE, NAME_SIZE, NOTE_SIZE, TASK_SIZE

# Shares of the font size, a little above Helvetica's, so that other fonts fit too.
_NARROW = frozenset("iljtfrI.,:;'|!()[]{} ·")
_WIDE = frozenset("mwMW@%…—→∥")


def measure(text: str, size: float) -> float:
    """Return the width of one line of text, rather too large than too small."""
    return sum(map(_share, text)) * size


def measure_mono(text: str, size: float) -> float:
    """Return the width of one line in a monospaced font."""
    wide = sum(east_asian_width(char) in "WF" for char in text)
    return (len(text) + wide) * 0.61 * size


def _share(char: str) -> float:
    if char in _NARROW:
        return 0.33
    if char in _WIDE:
        return 0.9
    if char.isascii():
        return 0.68 if char.isupper() else 0.58
    return 1.05 if east_asian_width(char) in "WF" else 0.68


@dataclass(frozen=True, slots=True)
class Card:
    step: str
    name: str
    tip: str
    look: str
    badges: tuple[tuple[str, float], ...]
    tasks: tuple[tuple[str, str], ...]
    width: float
    height: float
    top: float = 11.0
    leading: float = 7.0
    is_round: bool = False
    is_terminal: bool = False
    note: str = ""

    @property
    def badges_width(self) -> float:
        return sum(width for _, width in self.badges) + 5 * (len(self.badges) - 1)


def make_card(step: Step, is_entry: bool, note: str = "") -> Card:
    """Measure a step; a step without tasks is round, because it only routes."""
    name = shorten(clean(step.name), 40)
    badges = tuple(
        (text, measure(text, BADGE_SIZE) + 14) for text in write_badges(step)
    )
    tasks = tuple(_split(text) for text in write_tasks(step))
    widths = [
        measure(name, NAME_SIZE) * 1.06,  # bold
        sum(width + 5 for _, width in badges),
        *(measure(f"{label} {kind}", TASK_SIZE) + 6 for label, kind in tasks),
        measure(note, NOTE_SIZE),
    ]
    height = 2 * 11.0 + NAME_SIZE + (TASK_SIZE + 5) * len(tasks)
    if badges:
        height += 7.0 + BADGE_SIZE + 6
    if note:
        height += NOTE_SIZE + 8
    return Card(
        step=step.name,
        name=name,
        tip=clean(step.desc or ""),
        look="entry" if is_entry else "work" if step.tasks else "route",
        badges=badges,
        tasks=tasks,
        width=max(84.0, max(widths) + 30),
        height=height,
        is_round=not step.tasks,
        is_terminal=step.next is None,
        note=note,
    )


def _split(text: str) -> tuple[str, str]:
    label, _, kind = text.partition(": ")
    return label, kind
