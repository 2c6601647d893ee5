"""Greedy decoding: where it stops, what is counted, and what comes back."""

import numpy as np

from attnlib.exercises.function import Case, Mistake
from attnlib.homework.assignment import (
    Convention,
    Option,
    Question,
    judge_of_variant,
    values_of,
)

CONVENTIONS = (
    Convention("gives", {
        "whole": Option("Return the ids of the prompt **and** of what was generated.",
                        "You return the prompt, too.", "words", "prompt_returned"),
        "new": Option("Return the ids of what was generated, **without** the prompt.",
                      "You return what was generated alone.", "words[len(ids) :]", "prompt_left_out"),
    }),
    Convention("stop_is", {
        "kept": Option("The stop, where one comes, is the last id of the result.",
                       "You keep the stop in the result.", name="stop_kept"),
        "dropped": Option("The stop, where one comes, is **not** in the result.",
                          "You leave the stop out of the result.", name="stop_dropped"),
    }),
    Convention("most_counts", {
        "new": Option("At most `most` ids are generated, a stop among them.",
                      "You count what is generated alone.", "most", "generated_counted"),
        "all": Option("The prompt and what is generated, a stop among it, are **together** at most `most` "
                      "ids; a prompt that has so many already gets none.",
                      "You count the prompt and what is generated together.", "most - len(ids)",
                      "all_counted"),
    }),
)  # fmt: skip
CHOICES = values_of(*CONVENTIONS)
LESSON = ({"gives": "whole", "stop_is": "kept", "most_counts": "all"},       # greedy_decode, lesson 12
          {"gives": "new", "stop_is": "dropped", "most_counts": "new"})      # Llama.generate, lesson 15
SAMPLE = {"gives": "new", "stop_is": "kept", "most_counts": "all"}

TEXT = """\
Write `generated(model, ids, stop, most)`, which lets a model write.

`ids` has shape `(n,)`: the ids of the prompt, at least one. `model(ids)` takes such a tensor, of any
length from 1 up, and returns the logits `(L, V)`: row t is about the id that follows place t. The next id is
always the likeliest, and the model reads all of the ids before it. It ends when the id `stop` has been
generated; a `stop` in the prompt ends nothing.

- {most_counts}
- {stop_is}
- {gives}

The result is a tensor of whole numbers, `(m,)`, where m may be 0."""

STUB = """\
def generated(model, ids, stop, most):
    \"\"\"The ids that greedy decoding gives.\"\"\""""

SOLUTION = """\
    words = ids
    for _ in range({most}):
        following = model(words)[-1].argmax()
{steps}
    return {gives}"""

STEPS = {
    "kept": "        words = torch.cat([words, following[None]])\n"
            "        if following == stop:\n            break",
    "dropped": "        if following == stop:\n            break\n"
               "        words = torch.cat([words, following[None]])",
}  # fmt: skip


def compute(model, ids, stop, most, *, gives="whole", stop_is="kept", most_counts="new", row=-1, more=0,
            reads="all", stops="right", takes="most", late=False):  # fmt: skip
    import torch

    words, begun = ids, len(ids)
    for _ in range((most if most_counts == "new" else most - begun) + more):
        if stops == "prompt" and stop in words[:begun].tolist():
            break
        read = {"all": words, "last": words[-1:], "begun": words[:begun] if begun == len(words) else
                torch.cat([words[:begun], words[-1:]])}[reads]  # fmt: skip
        logits = model(read)
        compared = {"of_all_rows": logits, "of_a_column": logits[:, row]}.get(takes, logits[row])
        following = compared.argmin() if takes == "least" else compared.argmax()
        if stop_is == "dropped" and following == stop and stops != "never" and not late:
            break
        words = torch.cat([words, following[None]])
        if following == stop and stops != "never" and not (late and stop_is == "kept"):
            break
        if late and len(words) > begun + 1 and words[-2] == stop:
            break
    return words if gives == "whole" else words[begun:]


def _model(rng, ids, said, words):
    """Says of each place what follows there; after ids that are not those that it knows, something else."""
    known = np.array([*ids, *said])
    noise = rng.normal(size=(len(known) + 40, words)) / 20

    def model(ids):
        import torch

        ids = np.asarray(ids)
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not 0 < len(ids) <= len(noise):
            raise ValueError(f"model takes a tensor of ids of shape (L,); it was given the shape {ids.shape} "
                             f"and the type {ids.dtype}")
        logits = noise[: len(ids)].copy()
        for t in range(len(ids)):
            length = min(t + 1, len(known))
            others = (ids[:length] != known[:length]).sum()
            following = known[t + 1] if t + 1 < len(known) else 3 * t
            logits[t, (following + others) % words] += 5
            logits[t, (following + others + 2) % words] += 4.5     # who draws by chance is found out
            logits[t, (following + others + 1) % words] -= 5
        return torch.from_numpy(logits)

    return model


def cases(rng, choice):
    import torch

    def made(ids, said, stop, most, words=9):
        model = _model(rng, ids, said, words)
        budget = most if choice["most_counts"] == "new" else most + len(ids)
        return model, torch.tensor(ids), stop, budget

    def drawn(number):
        return rng.integers(1, 8, number).tolist()

    return [
        Case("a model that stops after three ids", made([4, 1], [*drawn(3), 0, 5, 5], 0, 10),
             hint="Write the ids before each call of the model, and what it answers."),
        Case("a model that does not stop in time", made([2, 6, 3], drawn(9), 0, 5)),
        Case("a model that stops at once", made([5], [0, 3, 3], 0, 6)),
        Case("a stop in the prompt", made([0, 4], [*drawn(2), 0, 7, 7], 0, 7)),
        Case("a model whose stop is the last id allowed", made([3, 3], [*drawn(3), 0, 2], 0, 4)),
        Case("a model whose stop is 8", made([1, 0, 1], [*drawn(2), 0, 8, 1, 1], 8, 8)),
        Case("nothing to be generated", made([2, 5], drawn(3), 0, 0)),
        Case("a model that would stop one id later", made([7], [*drawn(3), 0, 4], 0, 3)),
    ]  # fmt: skip


MISTAKES = (
    Mistake("first_row_read", "You read the model's first row. What follows the last id stands in the last.",
            {"row": 0}),
    Mistake("one_id_too_few", "You generate one id too few where no stop comes.", {"more": -1}),
    Mistake("one_id_too_many", "You generate one id too many where no stop comes.", {"more": 1}),
    Mistake("last_id_alone", "You give the model the last id alone. It reads all of them.",
            {"reads": "last"}),
    Mistake("what_was_generated_is_lost", "You give the model the prompt and the last id. It reads all of "
            "them.", {"reads": "begun"}),
    Mistake("never_stops", "Your function goes on when the stop has come.", {"stops": "never"}),
    Mistake("stopped_by_the_prompt", "A stop in the prompt ends yours. Only one that was generated "
            "does.", {"stops": "prompt"}),
    Mistake("stopped_late", "Yours generates one more id when the stop has come.", {"late": True}),
    Mistake("all_rows_read", "You take the largest of all logits, those of every place among them. What "
            "follows the last id stands in the last row.", {"takes": "of_all_rows"}),
    Mistake("column_read", "You compare places: the logits of one id at all of them. The ids of the last "
            "place are to be compared.", {"takes": "of_a_column"}),
    Mistake("least_likely", "You take the least likely id.", {"takes": "least"}),
)  # fmt: skip


def question(choice):
    said = {each.name: each.options[choice[each.name]] for each in CONVENTIONS}
    return Question(
        id="generated", title="The likeliest word, again and again",
        kind="function", name="generated", points=3, part=1, minutes=12,
        text=TEXT.format(**{name: option.text for name, option in said.items()}),
        stub=STUB,
        solution=SOLUTION.format(most=said["most_counts"].code, gives=said["gives"].code,
                                 steps=STEPS[choice["stop_is"]]),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, MISTAKES, cases,
            "It reads all that was written, ends with the stop and no later, and keeps to what it may.",
            visible=4,
        ),
        forbids=("generate", "greedy_decode"),
    )  # fmt: skip
