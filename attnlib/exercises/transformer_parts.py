"""Lesson 12's parts: a batch and its masks, a layer in two orders, smoothed targets, a step of a beam."""

import numpy as np

from attnlib.exercises.common import in_torch
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake

# ------------------------------------------------------------- a layer in two orders


def _encoder_layer(x, attend, feed, norm_1, norm_2, norm_first, *, order="asked", sum_="x", second="first",
                   norms="two", parts="attend first", last="none", only=None):
    first = {"asked": norm_first, "exchanged": not norm_first, "post": False, "pre": True}[order]
    if only is not None and first != (only == "pre"):           # the other order is right
        sum_, second, norms = "x", "first", "two"
    if norms == "second forgotten":
        norm_2 = _as_it_is
    elif norms == "first forgotten":
        norm_1 = _as_it_is
    elif norms == "first twice":
        norm_2 = norm_1
    elif norms == "second twice":
        norm_1 = norm_2
    elif norms == "exchanged":
        norm_1, norm_2 = norm_2, norm_1
    elif norms == "none":
        norm_1 = norm_2 = _as_it_is
    if parts == "feed first":
        attend, feed = feed, attend
    elif parts == "attention alone":
        return _sum(x, attend, norm_1, first, sum_)
    if sum_ == "over both":             # one sum round both parts
        return x + feed(norm_2(attend(norm_1(x)))) if first else norm_2(x + feed(norm_1(attend(x))))
    y = _sum(x, attend, norm_1, first, sum_)
    if second == "input":               # what came in, not what the first sub-layer made of it
        out = _sum(x, feed, norm_2, first, sum_)
    elif second == "added to input":
        out = x + feed(norm_2(y)) if first else norm_2(x + feed(y))
    elif second == "both at once":
        return x + attend(norm_1(x)) + feed(norm_2(x)) if first else norm_2(x + attend(x) + feed(x))
    else:
        out = _sum(y, feed, norm_2, first, sum_)
    return norm_2(out) if last == "normed" and first else out


def _sum(x, part, norm, first, sum_):
    if sum_ == "none":
        return part(norm(x)) if first else norm(part(x))
    if sum_ == "normed":                # the norm's output is what goes on
        return norm(x) + part(norm(x)) if first else norm(norm(x) + part(x))
    if sum_ == "normed part":
        return x + norm(part(x))
    if sum_ == "twice":
        return 2 * x + part(norm(x)) if first else norm(2 * x + part(x))
    return x + part(norm(x)) if first else norm(x + part(x))


def _as_it_is(x):
    return x


def _layer_cases():
    rng = np.random.default_rng(12)

    def attend(x):                      # of any kind, for here the order counts
        return np.broadcast_to(x.mean(-2, keepdims=True), x.shape) * 1.5 + 0.3 * x[..., ::-1]

    def feed(x):
        return np.maximum(x - 0.2, 0) * 2 - 0.5 * x

    def norm(gain, shift):
        def of(x):
            x = x - x.mean(-1, keepdims=True)
            return gain * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) + shift

        return of

    def case(name, shape, norm_first, size=1.0, hint=""):
        return Case(name, (rng.normal(size=shape) * size, attend, feed, norm(1.3, 0.1), norm(0.7, -0.2),
                           norm_first), hint=hint)

    post = "Post-norm is norm(x + part(x)), for each of the two parts, the second on what the first gave."
    pre = "Pre-norm is x + part(norm(x)), for each of the two parts, the second on what the first gave."
    return [
        case("post-norm", (2, 5, 6), False, hint=post),
        case("pre-norm", (2, 5, 6), True, hint=pre),
        case("post-norm on large numbers", (1, 4, 8), False, 50, hint=post),
        case("pre-norm on large numbers", (1, 4, 8), True, 50, hint=pre),
        case("post-norm of one sentence without a batch", (3, 4), False),
        case("pre-norm of one sentence without a batch", (3, 4), True),
    ]


_IN_ONE_ORDER = (
    ("no_residual", "nothing is added to what a part gives.", {"sum_": "none"}),
    ("normed_residual", "you add to the normed x. The residual adds to x as it came.", {"sum_": "normed"}),
    ("part_normed", "you norm what the part gives, and then add.", {"sum_": "normed part"}),
    ("one_residual", "one sum spans both parts.", {"sum_": "over both"}),
    ("second_reads_input", "the second part starts again from x.", {"second": "input"}),
    ("second_adds_input", "the second part is added to the first x.", {"second": "added to input"}),
    ("norm_forgotten", "the second part has no norm.", {"norms": "second forgotten"}),
    ("norm_forgotten", "the first part has no norm.", {"norms": "first forgotten"}),
    ("no_norm", "nothing is normed.", {"norms": "none"}),
    ("one_norm", "both parts have the first norm.", {"norms": "first twice"}),
)  # fmt: skip
encoder_layer = FunctionExercise(
    _encoder_layer, _layer_cases,
    (
        Mistake("orders_exchanged", "The two orders are exchanged: with norm_first the norm stands before "
                "the part, without it behind the sum.", {"order": "exchanged"}),
        Mistake("always_post", "Your norm always stands behind the sum, whatever norm_first says.",
                {"order": "post"}),
        Mistake("always_pre", "Your norm always stands before the part, whatever norm_first says.",
                {"order": "pre"}),
        Mistake("no_residual", "Nothing is added: a part's output replaces what came in. What the part does "
                "not pass on is lost.", {"sum_": "none"}),
        Mistake("normed_residual", "You add to the normed x. The residual adds to x as it came; only the "
                "part sees the norm.", {"sum_": "normed"}),
        Mistake("part_normed", "You norm what the part gives, and then add. It is the sum that is normed in "
                "post-norm, and what goes into the part in pre-norm.", {"sum_": "normed part"}),
        Mistake("added_twice", "You add x twice. Does your part add it once already?", {"sum_": "twice"}),
        Mistake("second_reads_input", "The second part starts again from x. It takes what the first one "
                                      "gave.",
                {"second": "input"}),
        Mistake("second_adds_input", "The second part reads what the first one gave, and is added to the x "
                "of the beginning. It is added to what it reads.", {"second": "added to input"}),
        Mistake("both_at_once", "Both parts read the same x, side by side. Here they come one after the "
                "other.", {"second": "both at once"}),
        Mistake("one_norm", "Both parts have the first norm. Each has its own, with gains of its own.",
                {"norms": "first twice"}),
        Mistake("one_norm", "Both parts have the second norm. Each has its own, with gains of its own.",
                {"norms": "second twice"}),
        Mistake("norms_exchanged", "The two norms are exchanged.", {"norms": "exchanged"}),
        Mistake("no_norm", "Nothing is normed.", {"norms": "none"}),
        Mistake("norm_forgotten", "The second part has no norm.", {"norms": "second forgotten"}),
        Mistake("norm_forgotten", "The first part has no norm.", {"norms": "first forgotten"}),
        Mistake("one_residual", "One sum spans both parts. Each part is added to what it reads.",
                {"sum_": "over both"}),
        *(Mistake(name, f"In {order}-norm, and there alone: {told}", {"only": order, **choice}, rare=True)
          for order in ("post", "pre") for name, told, choice in _IN_ONE_ORDER),
        Mistake("feed_first", "The feed-forward net comes first. Attention does.", {"parts": "feed first"}),
        Mistake("feed_forgotten", "The second part is missing.", {"parts": "attention alone"}),
        Mistake("normed_at_the_end", "With pre-norm you norm the output once more. That belongs to the end "
                "of the whole stack, where it has a norm of its own.", {"last": "normed"}),
    ),
    "Checked in both orders, on small and on large numbers. In post-norm every sum is normed; in pre-norm a "
    "sum leads through all layers and nobody norms it on the way.",
    properties=(in_torch,),
)

# ------------------------------------------------------------- a batch and its masks


def _batch(src, tgt, pad_id, *, inputs="but last", targets="but first", marks="right", polarity="may",
           past="lower", pads="keys", of="inputs", src_mask="keys", src_pad="right"):
    length = tgt.shape[1]
    cuts = {"but last": tgt[:, :-1], "but first": tgt[:, 1:], "all": tgt}
    given, wanted = cuts[inputs], cuts[targets]
    if targets == "all" and marks == "rolled":
        wanted = np.roll(tgt, -1, 1)
    if marks == "unasked":              # as the package's teacher_forcing has it
        wanted = np.where(given == pad_id, pad_id, wanted)
    if marks == "shifted":              # another mark at the front, as if none were there
        given = np.concatenate([np.full_like(tgt[:, :1], pad_id), tgt[:, :-1]], 1)
        wanted = tgt
    pad = {"right": pad_id, "zero": 0}[src_pad]
    read = {"inputs": given, "targets": wanted, "tgt": tgt}[of]
    n = read.shape[1]
    i, j = np.arange(n)[:, None], np.arange(n)
    past = {"lower": j <= i, "strict": j < i, "ahead": j <= i + 1, "upper": j >= i,
            "none": i == i + 0 * j}[past]
    keys = (read != pad)[:, None, None, :]
    tgt_mask = {"keys": keys & past, "none": np.broadcast_to(past, (len(tgt), 1, n, n)),
                "queries": np.swapaxes(keys, -1, -2) & past, "both": keys & np.swapaxes(keys, -1, -2) & past,
                "or": keys | past, "alone": past}[pads]
    real = src != pad
    of_source = {"keys": real[:, None, None, :], "three": real[:, None, :], "two": real,
                 "square": real[:, None, None, :] & real[:, None, :, None],
                 "causal": real[:, None, None, :] & np.tri(src.shape[1], dtype=bool),
                 "none": np.ones_like(real)[:, None, None, :],
                 "queries": real[:, None, :, None]}[src_mask]
    if polarity in ("hidden", "source hidden"):
        of_source = ~of_source
    if polarity in ("hidden", "target hidden"):
        tgt_mask = ~tgt_mask
    if marks == "blanked" and length:   # the end's mark made into padding
        given = np.where(given == given.max(), pad_id, given)
    return given, wanted, of_source, tgt_mask


def _batch_cases():
    def case(name, src, tgt, pad_id=0, hint=""):
        return Case(name, (np.array(src), np.array(tgt), pad_id), hint=hint)

    masks = ("A mask has a column for each key. The source's (B, 1, 1, S) serves every query, in the encoder "
             "and from the decoder; the target's (B, 1, L, L) is made for the inputs.")
    return [
        case("two sentences of one length", [[4, 5, 6], [6, 4, 4]], [[1, 7, 8, 9, 2], [1, 9, 7, 7, 2]],
             hint="Which word is nobody asked for, and after which is nothing asked? " + masks),
        case("padding on the right", [[4, 5, 0, 0], [6, 4, 5, 3], [5, 0, 0, 0]],
             [[1, 7, 8, 2, 0], [1, 9, 8, 7, 2], [1, 7, 2, 0, 0]], hint=masks),
        case("padding on the left of the source", [[0, 0, 4, 5, 3], [0, 6, 4, 4, 5]],
             [[1, 7, 8, 2], [1, 9, 8, 2]], hint=masks),
        case("padding on the left of both", [[0, 4, 5], [6, 4, 4]], [[0, 0, 1, 7, 2], [1, 9, 8, 7, 2]],
             hint=masks),
        case("as many sentences as words", [[4, 5, 0], [6, 0, 0], [3, 3, 4]],
             [[1, 8, 2, 0], [1, 2, 0, 0], [1, 9, 9, 2]], hint=masks),
        case("padding 9, and a word 0", [[0, 5, 9, 9], [3, 0, 0, 4]], [[1, 0, 2, 9], [1, 7, 0, 2]], 9,
             hint="Padding is what pad_id says."),
        case("one sentence of one word", [[5]], [[1, 7, 2]]),
    ]


_SHAPES = "Your source's mask needs the shape (B, 1, 1, S): axes for heads and queries, and the keys last."
training_batch = FunctionExercise(
    _batch, _batch_cases,
    (
        Mistake("no_shift", "Inputs and targets are the same, so that each position is asked for the word "
                "that it reads. The inputs lose the last token, the targets the first.",
                {"inputs": "all", "targets": "all", "of": "tgt"}),
        Mistake("no_shift", "Inputs and targets both lose the last token, so that each position is asked for "
                "the word that it reads. The targets lose the first.", {"targets": "but last"}),
        Mistake("no_shift", "Inputs and targets both lose the first token, so that each position is asked "
                "for the word that it reads. The inputs lose the last.", {"inputs": "but first"}),
        Mistake("shift_backwards", "Inputs and targets are exchanged: the decoder would read the next word "
                "and be asked for the one before it.", {"inputs": "but first", "targets": "but last"}),
        Mistake("inputs_whole", "The inputs keep their last token. After it nothing is asked, and the "
                "targets are one shorter.", {"inputs": "all"}),
        Mistake("rolled", "The targets are rolled, so that after the last token the first one is wanted. "
                "After it nothing is asked: the inputs lose it.",
                {"inputs": "all", "targets": "all", "marks": "rolled", "of": "tgt"}),
        Mistake("second_mark", "You put a mark before the target, which begins with one already.",
                {"marks": "shifted"}),
        Mistake("first_word_unasked", "You make the targets padding where the inputs are, as the package's "
                "teacher_forcing does. Here the targets are the target without its first token, and no more.",
                {"marks": "unasked"}),
        Mistake("end_hidden", "You take the mark of the end out of the inputs of shorter sentences. It may "
                "stay: the target after it is padding.", {"marks": "blanked"}),
        Mistake("mask_of_targets", "The target's mask is made of the targets. It is the inputs that are "
                "read; the targets lie one word further on.", {"of": "targets"}),
        Mistake("mask_of_whole", "The target's mask is as long as the target. The inputs are one shorter.",
                {"of": "tgt"}),
        Mistake("no_causal", "The future is not hidden: in your mask a word sees those after it, among them "
                "the one that it is asked for.", {"past": "none"}),
        Mistake("one_ahead", "A word sees the one after it, which is the word that it is asked for.",
                {"past": "ahead"}),
        Mistake("strict", "A word does not see itself. The inputs are shifted already; the diagonal may be "
                "seen.", {"past": "strict"}),
        Mistake("transposed", "The triangle lies on the wrong side: a word sees what comes after it.",
                {"past": "upper"}),
        Mistake("no_padding", "The target's padding is not hidden. With padding on the right the causal mask "
                "happens to hide it from real words; the exercise wants it hidden wherever it stands.",
                {"pads": "none"}),
        Mistake("causal_alone", "The target's mask is one triangle for all. It needs the padding of each "
                "sentence, and the shape (B, 1, L, L).", {"pads": "alone"}),
        Mistake("over_queries", "The target's padding is hidden by rows, as queries. It must be hidden by "
                "columns, as keys.", {"pads": "queries"}),
        Mistake("queries_too", "The rows of padded queries are emptied too. Nobody asks for what comes out "
                "there; only keys are hidden.", {"pads": "both"}),
        Mistake("joined_by_or", "A key is seen where it is real or not in the future. It must be both.",
                {"pads": "or"}),
        Mistake("source_causal", "The source's mask is causal. The source is known as a whole: only its "
                "padding is hidden.", {"src_mask": "causal"}),
        Mistake("source_open", "The source's padding is not hidden.", {"src_mask": "none"}),
        Mistake("source_axes", _SHAPES + " (B, S) would be taken for queries by keys.", {"src_mask": "two"}),
        Mistake("source_axes", _SHAPES + " (B, 1, S) meets the heads with its first axis.",
                {"src_mask": "three"}),
        Mistake("source_square", "The source's mask has rows of its own for queries. The decoder has other "
                "queries than the encoder, so it must be one row for all: (B, 1, 1, S).",
                {"src_mask": "square"}),
        Mistake("source_square", "The source's padding is hidden by rows, as queries: (B, 1, S, 1). It must "
                "be hidden as keys: (B, 1, 1, S).", {"src_mask": "queries"}),
        Mistake("hides", "Your masks are True where a key is hidden, as torch's layer has them. Here True "
                "means: may be attended to.", {"polarity": "hidden"}, convention=True),
        Mistake("source_hides", "The source's mask is True where a key is hidden. True means: may be "
                "attended to.", {"polarity": "source hidden"}),
        Mistake("target_hides", "The target's mask is True where a key is hidden. True means: may be "
                "attended to.", {"polarity": "target hidden"}),
        Mistake("pad_always_zero", "You take 0 for the padding whatever pad_id says.", {"src_pad": "zero"}),
    ),
    "Checked with padding on either side, under two ids, with as many sentences as words. These four arrays "
    "are all that a step of training needs.",
    properties=(in_torch,),
)

# ------------------------------------------------------------- smoothed targets


def _smooth(targets, n_classes, smoothing, pad_id, *, share="others", own="rest", pad_class="none",
            pad_rows="zero", pad_is="given", size="given", form="rows"):
    pad = {"given": pad_id, "zero": 0}[pad_is]
    e = {"given": smoothing, "fixed": 0.1, "rest": 1 - smoothing}[size]
    others = {"others": n_classes - 2, "all": n_classes, "all but own": n_classes - 1,
              "one": 1, "three": max(n_classes - 3, 1)}[share]
    rows = np.full((*targets.shape, n_classes), e / others)
    at = targets[..., None] == np.arange(n_classes)
    kept = {"rest": 1 - e, "with share": 1 - e + e / others, "one": 1.0}[own]
    rows = np.where(at, kept, rows)
    if pad_class == "none":
        rows[..., pad] = np.where(targets == pad, rows[..., pad], 0)
    if form == "one hot":
        rows = at * 1.0
    elif form == "normed":
        rows = rows / rows.sum(-1, keepdims=True)
    if pad_rows == "zero":
        rows = np.where((targets == pad)[..., None], 0.0, rows)
    elif pad_rows == "even":
        rows = np.where((targets == pad)[..., None], 1 / n_classes, rows)
    elif pad_rows == "pad":
        rows = np.where((targets == pad)[..., None], np.arange(n_classes) == pad, rows)
    elif pad_rows == "rest":
        rows = np.where((targets == pad)[..., None], (1 - e) * (np.arange(n_classes) == pad), rows)
    if form == "logs":
        with np.errstate(divide="ignore"):
            return np.log(rows)
    return rows.swapaxes(-1, -2) if form == "turned" else rows


def _smooth_cases():
    def case(name, targets, *args, hint=""):
        return Case(name, (np.array(targets), *args), hint=hint)

    sums = "A row sums to 1: what the target gives away, the others have. Padding is none of them."
    return [
        case("two sentences, six words", [[3, 5, 2], [4, 1, 3]], 6, 0.1, 0, hint=sums),
        case("smoothing of 0.4", [[3, 5, 2], [4, 1, 3]], 6, 0.4, 0, hint=sums),
        case("padding on the right", [[3, 4, 0, 0], [2, 1, 4, 0]], 5, 0.2, 0,
             hint="Where the target is padding nothing is asked: a row of zeros."),
        case("padding 2", [[3, 2, 0], [0, 1, 2]], 5, 0.3, 2, hint="Padding is what pad_id says."),
        case("no smoothing", [[1, 3], [2, 2]], 4, 0.0, 0, hint="All on the target."),
        case("three words", [[1, 2, 0]], 3, 0.5, 0, hint="There is one other word."),
        case("a list of targets", [4, 0, 2, 6], 7, 0.1, 0),
    ]


smooth_targets = FunctionExercise(
    _smooth, _smooth_cases,
    (
        Mistake("as_in_torch", "Your smoothing is spread over all classes, the target and the padding among "
                "them: 1 - e + e/V and e/V, as in torch's cross_entropy. Here the target keeps 1 - e and the "
                "padding has nothing.", {"share": "all", "own": "with share", "pad_class": "has"},
                convention=True),
        Mistake("padding_shares", "The padding has a share. It is never the word that comes.",
                {"pad_class": "has", "share": "all but own"}),
        Mistake("padding_shares", "The padding has a share, and rows sum to more than 1.",
                {"pad_class": "has"}),
        Mistake("shared_by_all", "The smoothing is divided by the number of all classes. It is shared by "
                "those that are neither the target nor the padding.", {"share": "all"}),
        Mistake("shared_by_all", "The smoothing is divided by the number of all classes, and the target "
                "keeps a share too. It is shared by those that are neither the target nor the padding.",
                {"share": "all", "own": "with share"}),
        Mistake("one_too_many", "The smoothing is divided by V - 1. Neither the target nor the padding "
                "shares it, so two are left out.", {"share": "all but own"}),
        Mistake("not_shared", "Each other word has all of the smoothing. They share it.", {"share": "one"}),
        Mistake("target_keeps_all", "The target keeps 1. It gives the smoothing away.", {"own": "one"}),
        Mistake("rest_exchanged", "The target has the smoothing, and the others share the rest.",
                {"size": "rest"}),
        Mistake("smoothing_fixed", "You smooth by 0.1 whatever smoothing says.", {"size": "fixed"}),
        Mistake("no_smoothing", "Nothing is smoothed: all lies on the target.", {"form": "one hot"}),
        Mistake("pad_rows_kept", "Where the target is padding your row is not zeros. Nothing is asked there.",
                {"pad_rows": "kept"}),
        Mistake("pad_rows_even", "Where the target is padding your row is even. It must be zeros, so that "
                "the loss there is 0 whatever the model says.", {"pad_rows": "even"}),
        Mistake("pad_rows_kept", "Where the target is padding your row asks for padding. It must be zeros.",
                {"pad_rows": "pad"}),
        Mistake("pad_rows_kept", "Where the target is padding your row has 1 - e at the padding. Is it "
                "emptied before the targets' places are filled?", {"pad_rows": "rest"}),
        Mistake("target_shares", "The target has a share of the smoothing besides. It gives it away.",
                {"own": "with share"}),
        Mistake("pad_always_zero", "You take 0 for the padding whatever pad_id says.", {"pad_is": "zero"}),
        Mistake("logs", "These are logarithms. The probabilities are asked for.", {"form": "logs"}),
        Mistake("turned", "The classes must be the last axis.", {"form": "turned"}),
    ),
    "Checked with padding under two ids, with much smoothing and none, down to three words. Cross-entropy "
    "against these rows is the loss; pad rows cost nothing.",
    properties=(in_torch,),
)

# ------------------------------------------------------------- a step of a beam


def _beam_step(scores, log_probs, k, *, total="sum", pick="all", order="falling", split="rows", given="new",
               results="right"):
    n, words = log_probs.shape
    of = scores[:, None]
    with np.errstate(divide="ignore"):
        through = np.log(np.exp(of) * np.exp(log_probs))
    totals = {"sum": of + log_probs, "through probabilities": through, "words": log_probs,
              "product": of * log_probs, "probabilities": of + np.exp(log_probs),
              "difference": log_probs - of, "mean": (of + log_probs) / 2,
              "across": scores.sum() + log_probs}[total]
    flat = totals.ravel()
    if pick == "best of each":          # each beginning goes on with its own best word
        found = np.arange(n) * words + totals.argmax(-1)
        found = found[np.argsort(-flat[found], kind="stable")][:k]
    elif pick == "of the best":         # only the best beginning goes on
        row = int(scores.argmax())
        found = row * words + np.argsort(-totals[row], kind="stable")[:k]
    elif pick == "by word":             # each word once, with its best beginning
        row = totals.argmax(0)
        found = row * words + np.arange(words)
        found = found[np.argsort(-flat[found], kind="stable")][:k]
    else:
        found = np.argsort(-flat, kind="stable")[:k]
        if order == "worst":
            found = np.argsort(flat, kind="stable")[:k]
        elif order == "rising":
            found = found[::-1]
        elif order == "by place":
            found = np.sort(found)
    if split == "by k":
        rows, word = found // k, found % k
    elif split == "by n":
        rows, word = found // n, found % n
    elif split == "columns":
        rows, word = found % words % n, found // words
    else:
        rows, word = found // words, found % words
    new = {"new": flat[found], "words": log_probs.ravel()[found], "old": scores[found // words],
           "probabilities": np.exp(flat[found])}[given]
    if results == "exchanged":
        rows, word = word, rows
    return (rows, word, new) if results != "flat" else (found, word, new)


def _beam_cases():
    rng = np.random.default_rng(21)

    def logs(n, words, sharp=2.0):
        x = sharp * rng.normal(size=(n, words))
        return x - np.log(np.exp(x).sum(-1, keepdims=True))

    def case(name, scores, log_probs, k, hint=""):
        return Case(name, (np.array(scores, float), np.array(log_probs), k), hint=hint)

    hint = ("Add each beginning's score to the log-probabilities of its next words, and look for the k "
            "largest in the whole table.")
    torn = np.log([[0.4, 0.35, 0.25], [0.9, 0.05, 0.05]])
    lead = np.log([[0.5, 0.45, 0.03, 0.02], [0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.3, 0.2]])
    return [
        case("the sure second beginning", np.log([0.6, 0.4]), torn, 2, hint),
        case("one beginning", [0.0], logs(1, 5), 3, "At the start there is one beginning, and k go on."),
        case("a beginning that both places go to", np.log([0.9, 0.06, 0.04]), lead, 3, hint),
        case("4 beginnings and 7 words", -np.arange(4) * 0.3 - 2, logs(4, 7), 4, hint),
        case("a beginning that has ended", [-1.0, -np.inf, -1.5], logs(3, 6), 3,
             "A beginning of score -inf goes on with no word."),
        case("more beginnings than words", -rng.random(5), logs(5, 3), 5,
             "A place in the table is row times the number of words, plus the word."),
        case("12 go on", -rng.random(12), logs(12, 40), 12,
             "Are the k best in order? A partition only parts them from the rest."),
        case("a beam of 1", [-0.2], logs(1, 4), 1),
        case("fewer go on than there were", -rng.random(4), logs(4, 5), 2),
        case("long sentences", [-800.0, -801.0, -800.5], logs(3, 5), 3,
             "Probabilities of long sentences are 0 in floating point. Stay with logarithms."),
    ]


def _best_first(case, value, expected):
    rows, words, new = (np.asarray(part, float) for part in value)
    n, size = case.args[1].shape
    if rows.min() < 0 or rows.max() >= n:
        return f"There are {n} beginnings, 0 to {n - 1}, and your rows are {rows.astype(int).tolist()}."
    if words.min() < 0 or words.max() >= size:
        return f"There are {size} words, 0 to {size - 1}, and yours are {words.astype(int).tolist()}."
    if (np.diff(new) > 1e-9).any():
        return "Your scores do not fall. The best comes first."
    return None


beam_step = FunctionExercise(
    _beam_step, _beam_cases,
    (
        Mistake("old_scores_forgotten", "You compare the next words alone. What counts is the whole sentence "
                "so far: the score of the beginning is added.", {"total": "words"}),
        Mistake("logs_multiplied", "You multiply logarithms. Probabilities are multiplied, their logarithms "
                "added.", {"total": "product"}),
        Mistake("underflow", "You go through probabilities, and a long sentence's is 0 in floating point. "
                "Stay with logarithms, and add.", {"total": "through probabilities"}),
        Mistake("probability_added", "You add a probability to a logarithm.", {"total": "probabilities"}),
        Mistake("subtracted", "You subtract the beginning's score. It is added.", {"total": "difference"}),
        Mistake("halved", "You take the mean of the score and the log-probability. Their sum is asked for.",
                {"total": "mean"}),
        Mistake("beginnings_joined", "All beginnings' scores are added to every word. Each row has its own.",
                {"total": "across"}),
        Mistake("one_word_each", "Each beginning goes on with its own best word, so a good beginning cannot "
                "have two places. The k best of the whole table are asked for.", {"pick": "best of each"}),
        Mistake("best_beginning_alone", "Only the best beginning goes on. Then a second one that is followed "
                "by a sure word has no chance, and the beam is greedy.", {"pick": "of the best"}),
        Mistake("each_word_once", "Each word is taken once only. Two beginnings may go on with the same "
                                  "word.",
                {"pick": "by word"}),
        Mistake("worst", "These are the k worst. Log-probabilities are negative, and the largest is the "
                         "best.",
                {"order": "worst"}),
        Mistake("rising", "The best comes last. It must come first.", {"order": "rising"}),
        Mistake("by_place", "Your results are in the order of the table. The best comes first.",
                {"order": "by place"}),
        Mistake("divided_by_k", "You divide the place in the table by k. A row of the table has as many "
                "places as there are words.", {"split": "by k"}),
        Mistake("divided_by_rows", "You divide the place in the table by the number of beginnings. A row of "
                "the table has as many places as there are words.", {"split": "by n"}),
        Mistake("exchanged", "Rows and words are exchanged.", {"results": "exchanged"}),
        Mistake("flat", "Your rows are places in the flat table. Which beginning is that?",
                {"results": "flat"}),
        Mistake("word_scores", "Your scores are those of the last words alone. The score of the whole "
                "sentence is asked for.", {"given": "words"}),
        Mistake("scores_not_updated", "Your scores are those of the beginnings, without the new word.",
                {"given": "old"}),
        Mistake("scores_as_probabilities", "Your scores are probabilities. Keep logarithms: a long "
                "sentence's probability is 0 in floating point.", {"given": "probabilities"}),
    ),
    "Checked with one beginning and several, with one that has ended, with more beginnings than words, and "
    "with sentences whose probability is 0 in floating point. All of beam search is this step, again and "
    "again.",
    properties=(in_torch, _best_first), rtol=1e-5,
)

EXERCISES = (
    Exercise(
        "encoder_layer", "12", encoder_layer,
        (
            "There are two parts, and the same thing happens round each of them. Write it for one part "
            "first.",
            "Post-norm: the sum of x and of what the part says of x is normed. Pre-norm: the part reads the "
            "normed x, and what it says is added to x as it came.",
            "The second round has the second part, the second norm, and for x what the first round gave.",
        ),
        '''\
def encoder_layer(x, attend, feed, norm_1, norm_2, norm_first):
    for part, norm in ((attend, norm_1), (feed, norm_2)):
        x = x + part(norm(x)) if norm_first else norm(x + part(x))
    return x
''',
        "function",
    ),
    Exercise(
        "training_batch", "12", training_batch,
        (
            "A target of five tokens is four questions. Which token is never read, which never asked for?",
            "The source's mask says of each source token whether it is real, in a shape that serves every "
            "head and every query. The target's says the same of the inputs, and hides the future.",
            "(src != pad_id) gets two axes in its middle. For the inputs the same, joined by & with the "
            "lower triangle of ones, the diagonal included.",
        ),
        '''\
import numpy as np


def training_batch(src, tgt, pad_id):
    inputs, targets = tgt[:, :-1], tgt[:, 1:]
    src_mask = (src != pad_id)[:, None, None, :]                    # (B, 1, 1, S)
    past = np.tri(inputs.shape[1], dtype=bool)                      # (L, L)
    return inputs, targets, src_mask, (inputs != pad_id)[:, None, None, :] & past
''',
        "function",
    ),
    Exercise(
        "smooth_targets", "12", smooth_targets,
        (
            "Write down one row for six words, where word 0 is the padding and word 3 the target.",
            "Between how many words is the smoothing shared, when the target and the padding have none of "
            "it?",
            "Fill all rows with the share, set the padding's column to 0, the targets' places to 1 - e, and "
            "at last the rows whose target is padding to 0.",
        ),
        '''\
import numpy as np


def smooth_targets(targets, n_classes, smoothing, pad_id):
    rows = np.full((*targets.shape, n_classes), smoothing / (n_classes - 2))
    rows[..., pad_id] = 0
    np.put_along_axis(rows, targets[..., None], 1 - smoothing, -1)
    rows[targets == pad_id] = 0
    return rows
''',
        "function",
    ),
    Exercise(
        "beam_step", "12", beam_step,
        (
            "Make the whole table first: a row for each beginning, a column for each next word, the score of "
            "the longer sentence in each place.",
            "Sort all places of the table together. From a place's number in the flat table, how do you get "
            "the row, how the column?",
            "Place = row times the number of words, plus the word. So a whole division by the number of "
            "words gives the row, and the remainder the word.",
        ),
        '''\
import numpy as np


def beam_step(scores, log_probs, k):
    totals = (scores[:, None] + log_probs).ravel()                  # (n V,)
    best = np.argsort(-totals)[:k]
    rows, words = np.divmod(best, log_probs.shape[1])
    return rows, words, totals[best]
''',
        "function",
    ),
)
