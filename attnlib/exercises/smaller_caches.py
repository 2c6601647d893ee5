"""Lesson 18's questions on caches: what changes their size, what a rotation passes, keys that codes break."""

import numpy as np

from attnlib.exercises.answers import as_floats, numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.verdict import right, unanswered, wrong

# ------------------------------------------------------------- what changes the size

_FACTORS = np.array([1, 320 / 576, 0.3125, 16, 1])
_NEAR = 0.006  # two decimals are enough
_KNOWN_FACTORS = (
    (0, 1 / 2, "heads_counted", "(a) The latent is one for all heads. What of it is kept for each of them?"),
    (0, 2, "heads_counted", "(a) Fewer heads never need a larger cache. And is anything of a latent kept for "
     "each head?"),
    (1, 1 / 2, "rotated_key_forgotten", "(b) The latent is halved. What else is kept of a token stays as "
     "long as it was."),
    (1, 256 / 576, "saved", "(b) That is the share that is saved. By which factor does the cache change?"),
    (1, 576 / 320, "turned_round", "(b) That is the old size by the new one. The cache gets smaller."),
    (1, 1, "latent_forgotten", "(b) The latent is what is kept, and it is half as long."),
    (2, 1 / 4, "scales_forgotten", "(c) From 16 bits to 4, that is the codes alone. Each group also keeps a "
     "scale and a zero: how many bytes a number is that?"),
    (2, 0.28125, "zero_forgotten", "(c) Two bytes for a scale are in it. The zero takes two more."),
    (2, 0.34375, "half_precision", "(c) Count again what a group shares: two numbers of two bytes each, for "
     "32 numbers."),
    (2, 0.625, "bytes_given", "(c) That is how many bytes a number takes. It took two before: give the "
     "factor."),
    (2, 0.6875, "saved", "(c) That is the share that is saved. By which factor does the cache change?"),
    (2, 3.2, "turned_round", "(c) That is the old size by the new one. The cache gets smaller."),
    (2, 2.5, "bits_for_bytes", "(c) Four bits are half a byte."),
    (3, 1, "cache_shared", "(d) Do two conversations share what was said in one of them?"),
    (4, 16, "weights_for_each", "(e) The same matrices serve all sixteen rows of a batch. How often must "
     "they be fetched for one step?"),
)  # fmt: skip


def cache_factors(answer):
    """Factors of a cache's size and of what a step reads, in five changes."""
    if isinstance(answer, (tuple, list)) and any(part is ... or part is None for part in answer):
        return unanswered("Put your answer in place of the three dots and run the cell again.")
    given, complaint = numbers(answer, (5,), "your answer")
    if complaint:
        return complaint
    near = np.abs(given - _FACTORS) < _NEAR
    if near.all():
        return right(
            "A latent does not know how many heads will read it, and beside it stands a rotated key, which "
            "shrinks with nothing. Scales and zeros make 5 bits of 4. And a batch shares weights, not "
            "caches: the more conversations, the more of what a step reads is cache."
        )
    if near[:3].all() and np.allclose(given[3:], _FACTORS[:2:-1]):
        return wrong("(d) and (e) have changed places. Which of the two belongs to one conversation alone?",
                     "swapped")
    wrongs = np.flatnonzero(~near)
    told = "The others are right. " if len(wrongs) == 1 else ""
    for index, value, name, hint in _KNOWN_FACTORS:
        if not near[index] and abs(given[index] - value) < _NEAR:
            return wrong(told + hint, name)
    first = wrongs[0]
    if given[first] < 0:
        return wrong(f"A factor is not negative; got {given[first]:g}.")
    return wrong(told + (
        "(a) Which of 60 layers, 128 heads, 512 and 64 numbers enter the size of this cache?",
        "(b) Write down what is kept of a token in one layer, before and after, and divide.",
        "(c) Write down the bytes of a group of 32 numbers, before and after, and divide.",
        "(d) Each of the 16 conversations has its own cache, of the same size here.",
        "(e) How often must a matrix be fetched to multiply 16 rows?",
    )[first])  # fmt: skip


# ------------------------------------------------------------- what lets a rotation through

ANGLES = np.linspace(0.1, 3.0, 30)


def _off(w):
    """By how much ``W R`` and ``R W`` differ, at the worst of the angles, for the size of W."""
    turns = np.array([[[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in ANGLES])
    return float(np.abs(w @ turns - turns @ w).max() / np.abs(w).max())


def _matrix(w, name):
    w = as_floats(w)
    if w is None or w.shape != (2, 2) or not np.isfinite(w).all() or np.abs(w).max() > 1e6:
        return None, wrong(f"Let {name} be a 2 by 2 array of numbers, none beyond a million.")
    if not w.any():
        return None, wrong(f"{name} is all zeros, and so would be every key.", "zeros")
    return w, None


def passes_through(answer):
    """A map of latents that a rotation passes, no multiple of the identity; a diagonal one that it does not.

    Two 2 by 2 matrices.
    """
    if not isinstance(answer, (tuple, list, np.ndarray)) or len(answer) != 2:
        return wrong(f"Give two matrices, (passes, stops); got {short(answer)}.")
    if any(part is ... or part is None for part in answer):
        return unanswered("Put a matrix in place of each row of three dots and run the cell again.")
    passes, complaint = _matrix(answer[0], "passes")
    if complaint:
        return complaint
    stops, complaint = _matrix(answer[1], "stops")
    if complaint:
        return complaint
    return _passes(passes) or _stops(stops) or right(
        "What passes is a turn and a stretch, [[a, -b], [b, a]]: two free numbers of four. Stretch two axes "
        "differently and the order matters. A head of DeepSeek-V2 has 128 rows over 512 features of the "
        "latent; if its map had to let rotations at many speeds pass, hardly anything of it would be free. "
        "So a few features are rotated, apart from the latent, and the rest are not."
    )


def _passes(w):
    size = np.abs(w).max()
    if np.abs(w - w[0, 0] * np.eye(2)).max() < 1e-3 * size:
        return wrong("passes is a multiple of the identity. It does let rotations pass; find one that moves "
                     "a vector off its line. What may be done before or after a turn with the same result?",
                     "identity")
    if _off(w) < 1e-6:
        return None
    if _off(w) < 1e-3:
        return wrong("passes nearly lets a rotation through. Two of its entries are to be equal, and two "
                     "opposite, to the last digit.", "rounded")
    told = f"For passes, W R and R W differ by {_off(w):.2f} of its largest entry. "
    if np.allclose(w[0, 1], w[1, 0]) and np.allclose(w[0, 0], -w[1, 1]):
        return wrong(f"{told}It is a mirror: behind a mirror a turn to the left is one to the right.",
                     "mirror")
    if np.allclose(w, w.T):
        what = "the axes" if abs(w[0, 1]) < 1e-9 * size else "two directions"
        return wrong(f"{told}It is symmetric: it stretches {what} differently, and after a turn other "
                     "vectors lie there.", "stretch")
    if abs(np.linalg.det(w)) < 1e-9 * size**2:
        return wrong(f"{told}It presses the plane onto a line, and a turn moves vectors off it.", "singular")
    if np.allclose(w[0, 1], -w[1, 0]):
        return wrong(f"{told}The two entries off the diagonal are right. And those on it?",
                     "diagonal_differs")
    if np.allclose(w[0, 0], w[1, 1]):
        return wrong(f"{told}The two entries on the diagonal are right. And those off it?", "shear")
    return wrong(f"{told}Which matrices give the same before and after a turn? Write W R = R W for a turn by "
                 "a quarter, [[0, -1], [1, 0]], and compare the entries.")


def _stops(w):
    size = np.abs(w).max()
    if abs(w[0, 1]) + abs(w[1, 0]) > 1e-9 * size:
        return wrong("passes is right. stops is to be diagonal, with zeros off the diagonal.", "not_diagonal")
    if _off(w) < 1e-6:
        return wrong("passes is right. stops is a multiple of the identity, and that lets every rotation "
                     "pass.", "stops_identity")
    if min(abs(w[0, 0]), abs(w[1, 1])) < 1e-9 * size:
        return wrong("passes is right. stops loses a feature of the latent altogether. Let both entries on "
                     "its diagonal be other than 0.", "stops_singular")
    if _off(w) < 0.05:
        return wrong(f"passes is right. With stops, W R and R W differ by {_off(w):.3f} of its largest "
                     "entry, which one may overlook. Make it more than 0.05.", "too_little")
    return None


# ------------------------------------------------------------- keys that codes of two bits break

MOST = 16


def two_bits(k, axis):
    """Keys as codes of two bits, and back; numbers along the axis share a scale and a zero."""
    low, top = k.min(axis, keepdims=True), k.max(axis, keepdims=True)
    scale = np.where(top > low, (top - low) / 3, 1)
    return np.round((k - low) / scale) * scale + low


def break_per_token(answer):
    """A query and keys whose best key is lost by codes per token, and kept by codes per channel."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        return wrong(f"Give a query and keys, (q, k); got {short(answer)}.")
    if any(part is ... or part is None for part in answer):
        return unanswered("Put arrays in place of the three dots and run the cell again.")
    q, k = as_floats(answer[0]), as_floats(answer[1])
    if q is None or k is None or q.ndim != 1 or k.ndim != 2 or k.shape[1] != len(q):
        return wrong("Let q be an array of d numbers and k one of n rows of d numbers.")
    if not 2 <= len(k) <= MOST or not 2 <= len(q) <= MOST:
        return wrong(f"Give from 2 to {MOST} keys of from 2 to {MOST} features; got shape {k.shape}.")
    if not (np.isfinite(q).all() and np.isfinite(k).all()) or max(np.abs(q).max(), np.abs(k).max()) > 1e4:
        return wrong("Let all numbers be finite and none beyond 10,000.")
    exact, token, channel = (kk @ q for kk in (k, two_bits(k, -1), two_bits(k, -2)))
    if not q.any():
        return wrong("The query is all zeros, and scores every key alike.", "query_zero")
    best = int(exact.argmax())
    if not _leads(exact, best):
        return wrong("Two keys have the best score already, before anything is coded. One is to lead.",
                     "tie_before")
    if not _leads(channel, best):
        if not _leads(token, best):
            return wrong(f"Codes per token lose key {best}, and so do codes per channel. What varies from "
                         "key to key must fit into four levels of its channel: use fewer keys, or numbers "
                         "that lie on the levels.", "both_break")
        return wrong(f"The other way round: codes per channel lose key {best}, and codes per token keep it. "
                     "Which of the two has one loud number in every group?", "turned_round")
    if _leads(token, best):
        return _not_broken(q, k, best)
    winner = int(token.argmax())
    if not _leads(token, winner):
        return wrong(f"Per token, key {best} is no longer alone in front: two keys have the same score. "
                     "Nearly. Let another key win: one small number is rounded up where the others are "
                     "rounded down.", "tie_after")
    quiet = " Per channel nothing at all was lost: a channel of two numbers needs two levels." * (
        len(k) == 2)  # fmt: skip
    return right(
        f"Key {best} leads with {exact[best]:.3g}; per token key {winner} would win, {token[winner]:.3g} to "
        f"{token[best]:.3g}. One loud feature sets the scale of its whole token, and the quiet ones, which "
        f"the query asks for, have to make do with its four levels.{quiet}"
    )


def _leads(scores, index):
    others = np.delete(scores, index)
    return bool(scores[index] - others.max() > 1e-9 * max(1.0, np.abs(scores).max()))


def _not_broken(q, k, best):
    spread = np.ptp(k, axis=-1)
    loud = np.abs(k).mean(0)
    told = f"Per token, key {best} still wins. "
    if k.shape[1] == 2:
        return wrong(f"{told}A token of two features loses nothing: its least number and its largest always "
                     "come back. Give the keys a third feature, between the others.", "two_features")
    if loud.max() < 3 * loud[loud > 0].min():
        return wrong(f"{told}Its features are about equally large, and a scale fits them all. What would "
                     "make the scale of a token too coarse for the features that matter?", "no_loud_channel")
    if np.argmax(np.abs(q)) == loud.argmax() and np.ptp(k[:, loud.argmax()]) > 0:
        return wrong(f"{told}The query asks for the loud feature, and that is coded well. Which features "
                     "suffer from it?", "asks_for_the_loud")
    step = spread.max() / 3
    return wrong(f"{told}A step of your codes per token is {step:.3g}. Which of the small numbers are "
                 "rounded down, and which up? Let the best key lose by it and another gain.", "not_yet")


_FACTORS_SOLUTION = """
answer = (1, (256 + 64) / (512 + 64), (4 / 8 + 4 / 32) / 2, 16, 1)
"""

_PASSES_SOLUTION = """
import numpy as np

passes = np.array([[2.0, -1.0], [1.0, 2.0]])             # a turn and a stretch
stops = np.array([[1.0, 0.0], [0.0, 2.0]])               # stretches one axis only
answer = passes, stops
"""

_BREAK_SOLUTION = """
import numpy as np

q = np.array([0.0, 1.0, 1.0, 0.0])                       # does not ask for the loud feature
k = np.array([[9.0, 1.4, 1.4, 0.0],                      # 2.8, the best; a step is 3: both become 0
              [9.0, 1.6, 0.0, 0.0]])                     # 1.6, which becomes 3
answer = q, k
"""

EXERCISES = (
    Exercise("cache_factors", "18", cache_factors, (
        "For (a) and (b) write what is kept of a token in one layer: a latent and a rotated key, for all "
        "heads together.",
        "For (c) take a group of 32 numbers: 32 codes of 4 bits, and two numbers of two bytes. Before, 32 "
        "numbers of two bytes.",
        "For (d) and (e): a matrix multiplies all rows of a batch once it is there. A cache is read by its "
        "own conversation alone.",
    ), _FACTORS_SOLUTION, "prediction"),
    Exercise("passes_through", "18", passes_through, (
        "Take a turn by a quarter, R = [[0, -1], [1, 0]]. Multiply [[a, b], [c, d]] by it from the left and "
        "from the right and compare.",
        "Two turns may be done in either order, and so may a turn and an equal stretch of both axes.",
        "The entries on the diagonal are equal, those off it opposite: a turn by some angle, stretched. And "
        "a diagonal matrix stops a rotation when it stretches one axis more than the other.",
    ), _PASSES_SOLUTION, "construction"),
    Exercise("break_per_token", "18", break_per_token, (
        "Give every key one feature that is large, the same in all, and that the query does not ask for.",
        "Per token that feature makes the scale: with 9 and 0 in a key a step is 3. What is below 1.5 "
        "becomes 0, what is above becomes 3.",
        "Let the best key have two features just below half a step, and the other key one just above.",
    ), _BREAK_SOLUTION, "construction"),
)  # fmt: skip
