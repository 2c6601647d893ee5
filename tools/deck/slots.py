"""How the minutes of a deck stand against the slots that lecturers are given."""

from bisect import bisect_left
from itertools import accumulate

SLOTS = (45, 90)


def ends(minutes):
    """Slot -> the slide, counted from 1, on which it is over, where the deck is longer than the slot.

    ``minutes`` has one number a slide. A slot that is over as a slide ends is over on that slide.
    """
    elapsed = list(accumulate(minutes))
    return {slot: 1 + bisect_left(elapsed, slot) for slot in SLOTS if elapsed[-1] > slot}


def left(elapsed, total):
    """What a speaker reads as a slide begins: "12 of 86 min. Left: 33 of 45, 78 of 90."."""
    rest = [f"{slot - elapsed} of {slot}" for slot in SLOTS if slot > elapsed]
    return f"{elapsed} of {total} min. " + (f"Left: {', '.join(rest)}." if rest else f"{SLOTS[-1]} are over.")


def fit(minutes, names):
    """How a deck fits: "86 minutes: 45 ends on slide 41 (Half time), fits 90 and leaves 4"."""
    total = sum(minutes)
    if not total:
        return "no minutes in its notes"
    parts = [f"{slot} ends on {names[number - 1]}" for slot, number in ends(minutes).items()]
    roomy = next((slot for slot in SLOTS if slot >= total), None)
    if roomy:
        parts.append(f"fits {roomy}" + (f" and leaves {roomy - total}" if roomy > total else ""))
    return f"{total} minutes: {', '.join(parts)}"
