"""A figure, judged by the numbers in it: how alike two places are to all others, by place or by distance."""

import numpy as np

from attnlib.exercises.verdict import right, unreadable, wrong
from attnlib.homework.assignment import Question, words_missing
from attnlib.homework.figures import figure_of

N, WIDTH = 60, 32
CHOICES = {
    "alike": ("product", "cosine"),
    "along": ("place", "distance"),
    "two_places": ("10, 40", "15, 32", "8, 48", "20, 45"),
}
LESSON = None
SAMPLE = {"alike": "cosine", "along": "distance", "two_places": "15, 32"}

TEXT = """\
`PLACES` holds a row of sinusoids for each place from 0 to 59. Draw two lines in one pair of axes: how alike
place **{one}** is to each of the 60 places, and how alike place **{other}** is. `figure` is the Matplotlib
figure. Up goes {up}; across goes {across}. So each line has 60 points.

Give each line a label that holds the number of its place, and show the labels in a legend. The label of x
says "{x_word}", that of y says "{y_word}", and there is a title. The figure is judged by the numbers and
words in it; colours are yours."""

UP = {"product": "the **dot product** of the two rows",
      "cosine": "the **cosine** of the angle between the two rows, their dot product divided by both lengths"}
ACROSS = {"place": "the **place** that is compared, from 0 to 59",
          "distance": "the **distance**: the place that is compared less the line's own place, so negative "
                      "for those before it"}  # fmt: skip

GIVEN = f"""\
import matplotlib.pyplot as plt

angles = np.arange({N})[:, None] * 10000.0 ** (-np.arange(0, {WIDTH}, 2) / {WIDTH})     # ({N}, {WIDTH // 2})
PLACES = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape({N}, {WIDTH})"""

SOLUTION = """\
{rows}figure, axes = plt.subplots()
for place in ({places}):
    axes.plot(np.arange(60){less}, {alike}, label=f"place {{place}}")
axes.legend()
axes.set(xlabel="{x}", ylabel="{y}", title="{title}");"""

WORDS = {"product": "dot product", "cosine": "cosine"}


def _places():
    angles = np.arange(N)[:, None] * 10000.0 ** (-np.arange(0, WIDTH, 2) / WIDTH)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(N, WIDTH)


def question(choice):
    one, other = choice["two_places"].split(", ")
    rows = "directions = PLACES / np.linalg.norm(PLACES, axis=1, keepdims=True)\n"
    cosine = choice["alike"] == "cosine"
    return Question(
        id="places_alike", title="How alike are two places?",
        kind="figure", name="figure", points=3, part=1, minutes=10,
        text=TEXT.format(one=one, other=other, up=UP[choice["alike"]], across=ACROSS[choice["along"]],
                         x_word=choice["along"], y_word=WORDS[choice["alike"]]),
        given=GIVEN,
        stub="figure = ...",
        solution=SOLUTION.format(
            places=choice["two_places"],
            less=" - place" if choice["along"] == "distance" else "",
            rows=rows if cosine else "",
            alike="directions @ directions[place]" if cosine else "PLACES @ PLACES[place]",
            x=choice["along"], y=WORDS[choice["alike"]],
            title="Does it matter where the two stand?" if choice["along"] == "distance"
                  else "Which places are like these two?",
        ),
        judge=_judge_for(choice),
    )  # fmt: skip


def _judge_for(choice):
    places = _places()
    own = [int(place) for place in choice["two_places"].split(", ")]
    measures = {"product": places @ places.T}
    measures["cosine"] = measures["product"] / (WIDTH / 2)         # each hand has length 1
    up = measures[choice["alike"]]
    x_of = {"place": lambda p: np.arange(N), "distance": lambda p: np.arange(N) - p}
    x_wanted, x_other = x_of[choice["along"]], x_of["place" if choice["along"] == "distance" else "distance"]
    other_measure = measures["product" if choice["alike"] == "cosine" else "cosine"]
    apart = np.linalg.norm(places[:, None] - places, axis=-1)
    asked_up, asked_x = WORDS[choice["alike"]], choice["along"]
    e = np.exp(measures["product"] - measures["product"].max(1, keepdims=True))
    wrong_y = (
        (other_measure, "other_measure", f"Your line shows the {WORDS[_other(choice)]} of the two rows. "
         f"Asked for is the {asked_up}."),
        (apart, "how_far_apart", f"Your line shows how far apart the rows are: 0 where they are the same. "
         f"Asked for is the {asked_up}."),
        (e / e.sum(1, keepdims=True), "softmax_taken", "Your line shows weights: a softmax has been taken. "
         f"Asked for is the {asked_up}."),
        (measures["product"] / np.sqrt(WIDTH), "scaled", "Your dot products are divided by the root of the "
         "width."),
    )  # fmt: skip

    def drawn(line, x, y):
        """Whether a line shows these points, in whatever order it goes through them."""
        order = np.argsort(line[1], kind="stable")
        ours = np.argsort(x, kind="stable")
        return (np.allclose(line[1][order], x[ours], atol=1e-6)
                and np.allclose(line[2][order], y[ours], atol=1e-4))

    def fault(lines, p):
        """Of place ``p``, which no line shows: the mistake, what is said, and whether it is a convention."""
        xs = x_wanted(p)
        for line in lines:
            if drawn(line, x_other(p), up[p]):
                return ("other_axis", f"Your line for place {p} has the right heights. Across goes the "
                        f"{asked_x}, and yours goes by the "
                        f"{'place' if asked_x == 'distance' else 'distance'}.", True)
            if choice["along"] == "distance" and drawn(line, -xs, up[p]):
                return ("sign_of_the_distance", f"Your distances for place {p} have the other sign: places "
                        "before it lie on the left, at negative distances.", False)
            if choice["along"] == "distance" and drawn_folded(line, np.abs(xs), up[p]):
                return ("distance_without_sign", f"Your distances for place {p} have no sign. Those of "
                        "places before it are negative.", False)
            if drawn(line, xs + 1, up[p]):
                return "counted_from_one", "Your x axis counts from 1, and places are counted from 0.", False
            for near in (p - 1, p + 1):
                if drawn(line, x_wanted(near), up[near]):
                    told = f"One line shows place {near}. Places are counted from 0."
                    return "neighbour_drawn", told, False
            for heights, name, told in wrong_y:
                if drawn(line, xs, heights[p]):
                    return name, told, name == "other_measure"
                if drawn(line, x_other(p), heights[p]):
                    return name, f"{told} Across goes the {asked_x}.", True
        return None

    def drawn_folded(line, x, y):
        ours, theirs = (np.array(sorted(zip(a.round(4), b.round(4), strict=True)))
                        for a, b in ((x, y), line[1:]))  # fmt: skip
        return np.allclose(ours, theirs, atol=1e-3)

    def judge(answer, seed=None):
        found = figure_of(answer)
        if found is None:
            return unreadable("Let `figure` be the Matplotlib figure, as plt.subplots() returns it first.")
        with_lines = [(axes, [line for line in axes.lines if len(line[1]) == len(line[2]) == N])
                      for axes in found.axes]  # fmt: skip
        with_lines = [(axes, lines) for axes, lines in with_lines if lines]
        if not with_lines:
            return wrong(f"There is no line of {N} points in the figure. Draw each with plot.")
        if len(with_lines) > 1:
            return wrong("Draw both lines in one pair of axes, so that they can be compared.")
        axes, lines = with_lines[0]
        mine = {p: [line for line in lines if drawn(line, x_wanted(p), up[p])] for p in own}
        missing = [p for p in own if not mine[p]]
        if missing:
            known = [fault(lines, p) for p in missing]
            if known[0]:
                mistake, told, elsewhere = known[0]
                alone = all(each and each[0] == mistake for each in known)
                return wrong(told, mistake if alone else None, convention=elsewhere)
            if len(lines) == len(missing) == 1:
                return wrong(f"The line for place {missing[0]} is missing.", "one_line")
            return wrong(f"No line shows place {missing[0]}. Compute by hand what stands at its own place, "
                         "and what one place on.")
        if len(lines) > 2:
            return wrong(f"There are {len(lines)} lines; two are asked for.", "more_lines")
        unnamed = [p for p in own if not any(_names(line[0], p) for line in mine[p])]
        lacks = (
            (unnamed, "no_labels",
             f"The label of the line for place {(unnamed or own)[0]} does not hold this number."),
            (not unnamed and not all(any(_names(text, p) for text in axes.legend) for p in own), "no_legend",
             "The numbers of the places do not stand in a legend."),
            (asked_x not in axes.xlabel.lower() or asked_up not in axes.ylabel.lower(), "no_axis_labels",
             f'The label of x has to say "{asked_x}", that of y "{asked_up}".'),
            (not (axes.title.strip() or found.title.strip()), "no_title",
             "A title is missing: the question that the figure answers."),
        )  # fmt: skip
        return words_missing("The lines are right.", lacks) or right(
            "Both lines peak at their own place, and fall in waves to either side. "
            + ("Over the distance they lie on one curve: " if asked_x == "distance" else
               "They are one curve, moved along: ")
            + "it matters how far apart two places are, not where."
        )  # fmt: skip

    return judge


def _other(choice):
    return "product" if choice["alike"] == "cosine" else "cosine"


def _names(text, place):
    words = "".join(letter if letter.isdigit() else " " for letter in text).split()
    return str(place) in words
