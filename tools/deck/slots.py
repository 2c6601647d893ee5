"""How the minutes of a deck stand against the slots that lecturers are given."""

from itertools import accumulate

SLOTS = (45, 90)


def ends(minutes, opens):
    """Slot -> the last slide, counted from 1, that it has room for, where the deck is longer than the slot.

    ``minutes`` and ``opens`` have one entry a slide: what it takes, and whether it begins something. What is
    begun in a slot ends in it, so that no question is left without its answer, but for a slide that is
    longer than the slot.
    """
    elapsed = list(accumulate(minutes))
    closes = [*opens[1:], True]
    return {slot: max((n for n, (end, closed) in enumerate(zip(elapsed, closes, strict=True), 1)
                       if end <= slot and closed), default=1)
            for slot in SLOTS if elapsed[-1] > slot}  # fmt: skip


def left(elapsed, total):
    """What a speaker reads as a slide begins: "50 of 86 min. Left: 40 of a slot of 90."."""
    rest = [f"{slot - elapsed} of a slot of {slot}" for slot in SLOTS if slot > elapsed]
    return f"{elapsed} of {total} min. " + (f"Left: {', '.join(rest)}." if rest else f"{SLOTS[-1]} are over.")


def fit(minutes, opens, names):
    """How a deck fits: "86 minutes: 45 ends with slide 41 (Half time), fits 90 and leaves 4"."""
    total = sum(minutes)
    if not total:
        return "no minutes in its notes"
    parts = [f"{slot} ends with {names[number - 1]}" for slot, number in ends(minutes, opens).items()]
    roomy = next((slot for slot in SLOTS if slot >= total), None)
    if roomy:
        parts.append(f"fits {roomy}" + (f" and leaves {roomy - total}" if roomy > total else ""))
    return f"{total} minutes: {', '.join(parts)}"
