"""A prediction: how many layers, of two windows in turn, until a far word is read."""

from math import ceil

from attnlib.exercises.answers import numbers
from attnlib.exercises.verdict import right, wrong
from attnlib.homework.assignment import Question

CHOICES = {
    "windows": ("3, 8", "6, 3", "4, 9", "9, 5"),
    "back": ("41", "38", "46", "59"),
    "window_is": ("counted", "besides"),        # drawn once, for the weights under a window too
}
LESSON = None
SAMPLE = {"windows": "3, 8", "back": "38", "window_is": "besides"}

TEXT = """\
**Predict, before you run anything.** The layers of a causal model take turns: the first, the third, the
fifth and so on have a window of {one}, those between them a window of {other}. A window of w is {counts}.
The last word has the number n, and the words before it n - 1, n - 2 and so on. How many layers does the
model need at least, so that something of the word number n - {back} can reach the output for the last word?
Put the number into `layers`."""

COUNTS = {"counted": "the word itself **and the w - 1 words before it**",
          "besides": "the word itself **and w words before it**"}  # fmt: skip


def layers_needed(steps, back):
    """The least number of layers that go ``back`` places, each by one of two ``steps`` in turn."""
    layers = reached = 0
    while reached < back:
        reached += steps[layers % 2]
        layers += 1
    return layers


def judge_for(windows, back, counts):
    """A judge of the number of layers."""
    less = counts == "counted"
    steps = [window - less for window in windows]
    least = layers_needed(steps, back)
    others = [window - (not less) for window in windows]
    own = ("The window counts the word itself, so a layer goes back by one place less than its window."
           if less else
           "The word itself comes on top of the window, so a layer goes back by a whole window.")  # fmt: skip
    told = (
        (layers_needed(others, back), own, "own_word"),
        (layers_needed(steps, back + 1), f"Number n - {back} lies {back} places back, and not {back + 1}.",
         "places_miscounted"),
        (layers_needed(steps, back - 1), f"Number n - {back} lies {back} places back, and not {back - 1}.",
         "places_miscounted"),
        (layers_needed(steps[::-1], back), "The layers take turns, and the first has the first window.",
         "turns_exchanged"),
        (ceil(back / sum(steps)), "That is how many pairs of layers go back so far.", "pairs_counted"),
        (ceil(back / steps[0]), "That would do if every layer had the first window.", "first_window_alone"),
        (ceil(back / steps[1]), "That would do if every layer had the second window.", "second_window_alone"),
        (_by_product(windows, back), "Each layer goes further back by its own places: that adds up, and does "
         "not multiply.", "multiplied"),
    )  # fmt: skip

    def judge(answer, seed=None):
        number, complaint = numbers(answer, (), "layers")
        if complaint:
            return complaint
        number = float(number)
        if number == least:
            gone = sum(steps[i % 2] for i in range(least))
            return right(f"The layers go back by {steps[0]} and {steps[1]} places in turn: {least} of them "
                         f"reach {gone} places back, one layer less only {gone - steps[(least - 1) % 2]}.")
        if number != round(number):
            return wrong("Layers come in whole numbers. What cannot be reached with one layer less needs "
                         "one more.", "not_whole")
        for value, words, mistake in told:
            if number == value:
                return wrong(words, mistake)
        much = "more than are needed" if number > least else "too few"
        return wrong(f"{number:g} layers are {much}. Draw the windows of two layers one upon the other: by "
                     "how many places does the second go beyond the first?")

    return judge


def _by_product(windows, back):
    layers, reached = 0, 1
    while reached <= back:
        reached *= windows[layers % 2]
        layers += 1
    return layers


def question(choice):
    windows, back = [int(window) for window in choice["windows"].split(", ")], int(choice["back"])
    steps = [window - (choice["window_is"] == "counted") for window in windows]
    return Question(
        id="reach", title="How many layers until it is heard?",
        kind="prediction", name="layers", points=2, part=0, minutes=6,
        text=TEXT.format(one=windows[0], other=windows[1], back=back, counts=COUNTS[choice["window_is"]]),
        stub="layers = ...",
        solution=f"layers = {layers_needed(steps, back)}",
        judge=judge_for(windows, back, choice["window_is"]),
    )  # fmt: skip
