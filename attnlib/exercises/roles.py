"""Who asks whom, of lesson 11: the three roles, the shapes that follow, a translator's three masks."""

import numpy as np

from attnlib.exercises.answers import numbers, short
from attnlib.exercises.common import unpacked
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, unreadable, wrong

# ------------------------------------------------------------------- who asks whom

LOOKS = (
    ("a Chinese word looks round in its own sentence", "SSS"),
    ("an English word looks back at what is written", "TTT"),
    ("an English word looks at the Chinese sentence", "TSS"),
    ("a word of a caption looks at patches of the photo", "TPP"),
    ("a patch of the photo looks for its words in the Chinese sentence", "PSS"),
    ("a Chinese sentence looks for its like in the phrase book, and takes the English beside it", "SCE"),
)
_TEXTS = "STPCE"


def who_asks(answer):
    """Queries, keys and values of six looks, as six strings of three letters."""
    if isinstance(answer, str):
        answer = answer.split()
    if not isinstance(answer, (tuple, list)) or len(answer) != len(LOOKS):
        return unreadable(f"Give six strings, one for each look; got {short(answer)}.")
    given = []
    for look in answer:
        code = "".join(c for c in look.upper() if c not in " ,") if isinstance(look, str) else ""
        if len(code) != 3 or not set(code) <= set(_TEXTS):
            return unreadable(
                f"Each look is three of the letters S, T, P, C, E, for queries, keys and values, such as "
                f'"TSP"; got {short(look)}.'
            )
        given.append(code)
    if len(set(given)) == 1:
        return wrong("The six looks differ. Ask in each: who wants to know something? Where is it looked up? "
                     "What is taken home?", "all_alike")
    for number, ((look, code), got) in enumerate(zip(LOOKS, given, strict=True), 1):
        if got != code:
            name, told = _confusion(got, code)
            return wrong(f"Look {number}, {look}: {got} is not right. {told}", name)
    return right(
        "Whoever wants to know something brings the queries, and gets as many rows back. Keys and values "
        "come row by row from what is read, mostly one text for both; in a phrase book they are two "
        "columns."
    )


_KEYS_FOR_VALUES = (
    "You look in the English column and take home Chinese. Which column can the sentence be compared with?"
)
_KEYS_HANDED_OUT = (
    "So the right line is found, and its Chinese is taken home, which is no help. What is compared is the "
    "key; what is handed out is the value."
)
_VALUES_COMPARED = (
    "A Chinese sentence is not compared with the English column. It is compared with keys and takes home "
    "values."
)
_ONE = "Here the words of one text look at each other: it asks, answers and hands out."
_SWAPPED = (
    "You have it the other way round. As many rows come back as there are queries: who is to get something "
    "here?"
)
_OWN_VALUES = (
    "Who asks does not take home its own words. What is weighed and summed belongs to what is read."
)
_OWN_KEYS = "Keys are what is asked. So would the weights fall on the words of the asker."
_QUERIES = "The queries come from whoever wants to know something, one for each row that comes back."


def _confusion(got, code):
    """The name of a wrong code and what to say of it."""
    (q, k, v), (right_q, right_k, right_v) = got, code
    asker, read = q == right_q, (k, v) == (right_k, right_v)
    if right_k != right_v:                                   # the phrase book
        if asker and (k, v) == (right_v, right_k):
            return "keys_for_values", _KEYS_FOR_VALUES
        if asker and k == v == right_k:
            return "keys_handed_out", _KEYS_HANDED_OUT
        if asker and k == v == right_v:
            return "values_compared", _VALUES_COMPARED
    if right_q == right_k:                                   # a text with itself
        return ("cross_for_self", _ONE) if got in ("TSS", "STT") else ("two_texts", _ONE)
    if q == right_k and k == v == right_q:
        return "sides_swapped", _SWAPPED
    if q == k == v:
        return "one_text", "That is one text with itself. Here one side wants to know, and another is read."
    if asker and v == right_q:
        return "values_of_asker", _OWN_VALUES
    if asker and k == right_q:
        return "keys_of_asker", _OWN_KEYS
    if q == right_k or read:
        return "query_of_the_read", _QUERIES
    return "another_text", "Ask: who wants to know something? Where is it looked up? What is taken home?"


# ------------------------------------------------------------------- shapes

_B, _S, _L, _D, _M, _H = 2, 9, 6, 12, 20, 3
_WANTED = (
    ("the weights of cross-attention", (_B, _H, _L, _S), {
        (_B, _H, _S, _L): ("weights_turned", "A row for each query and a column for each key: who asks "
                                             "here?"),
        (_B, _L, _S): ("heads_missing", "Each head has its own weights. Where does the axis of heads stand?"),
        (_B, _H, _L, _L): ("self_for_cross", "The keys are the memory's, and it has 9 words."),
        (_B, _H, _S, _S): ("self_for_cross", "The queries are those of 6 English words."),
        (_B, _L, _H, _S): ("heads_last", "Heads stand before the positions: (B, H, Lq, Lk)."),
        (_H, _B, _L, _S): ("heads_first", "The sentences come first: (B, H, Lq, Lk)."),
        (_H, _L, _S): ("batch_missing", "There are two sentences."),
        (_L, _S): ("batch_missing", "There are two sentences and three heads."),
    }),
    ("the output of cross-attention", (_B, _L, _D), {
        (_B, _S, _D): ("as_long_as_memory", "There is an output for each query, and the memory does not "
                                            "ask."),
        (_B, _L, _M): ("as_wide_as_memory", "The values come out of W_V, and W_O brings them to the width of "
                       "the decoder, to which they are added."),
        (_B, _S, _M): ("as_long_as_memory", "The output has the length and width of who asks, not of what is "
                       "read."),
        (_B, _H, _L, _D // _H): ("not_merged", "That is before the heads are merged."),
        (_B, _H, _L, _D): ("not_merged", "The heads are merged: their axis is gone."),
        (_L, _D): ("batch_missing", "There are two sentences."),
    }),
    ("W_K of cross-attention", (_M, _D), {
        (_D, _M): ("matrix_turned", "Used as a @ w, a matrix has the width that comes in first."),
        (_D, _D): ("keys_of_asker", "The keys are made of the memory, and it is 20 wide."),
        (_M, _M): ("keys_as_wide_as_memory", "A key must be as wide as a query, and queries are 12 wide, all "
                   "heads together."),
        (_M, _D // _H): ("one_head", "That serves one head of the three. W_K holds the columns of all."),
    }),
    ("the weights of the decoder's self-attention", (_B, _H, _L, _L), {
        (_B, _H, _L, _S): ("cross_for_self", "Here the English words look at each other."),
        (_B, _H, _S, _S): ("encoder_for_decoder", "That is the encoder's. The decoder has 6 words."),
        (_H, _B, _L, _L): ("heads_first", "The sentences come first: (B, H, Lq, Lk)."),
        (_B, _L, _L): ("heads_missing", "Each head has its own weights."),
    }),
)
_NOT_ZERO = {
    36: ("no_mask", "That is every weight. The decoder's words see no later ones."),
    15: ("without_itself", "Each word sees itself too."),
    18: ("half", "Half of the table, and the diagonal belongs to it as well: count row by row."),
    54: ("cross_for_self", "That is 6 times 9, the table of cross-attention."),
    21 * _B * _H: ("all_tables", "That counts all heads of both sentences. One table is asked for."),
    21 * _B: ("all_tables", "That counts both sentences. One table is asked for."),
    21 * _H: ("all_tables", "That counts all heads. One table is asked for."),
    45: ("encoder_for_decoder", "That is 9 words. The decoder has 6."),
}


def three_shapes(answer):
    """Four shapes of a decoder layer, and the number of weights in one causal table that are not zero."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 5:
        return unreadable(f"Give four shapes and a number, joined by commas; got {short(answer)}.")
    *given, count = answer
    read = []
    for (what, wanted, _), shape in zip(_WANTED, given, strict=True):
        try:
            read.append(tuple(int(n) for n in shape))
            if read[-1] != tuple(float(n) for n in shape):
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            return unreadable(f"Give a shape, such as {tuple(range(2, 2 + len(wanted)))}, for {what}; got "
                              f"{short(shape)}.")
    count, complaint = numbers(count, (), "the last of the five")
    if complaint:
        return complaint
    for (what, wanted, confusions), shape in zip(_WANTED, read, strict=True):
        if shape != wanted:
            name, told = confusions.get(shape, (None, "Who asks, and who is asked? Write B, H, Lq, Lk and "
                                                      "the widths behind each line."))
            return wrong(f"{shape} for {what} is not right. {told}", name)
    if count != 21:
        name, told = _NOT_ZERO.get(float(count), (None, "The first word sees one, itself; the second sees "
                                                        "two."))
        return wrong(f"{float(count):g} weights is not right. {told}", name)
    return right(
        "The asker gives the rows, the output's length and its width; the read gives the columns and the "
        "inner width of W_K and W_V. Under the causal mask 1 + 2 + 3 + 4 + 5 + 6 weights are left."
    )


# ------------------------------------------------------------------- three masks


def _masks(source, target, pad_id=0, *, cross="right", decoder="right", encoder="right", pad="right",
           polarity="right", form="bool", order="right", axes="right"):  # fmt: skip
    unpacked(source.shape, 2)
    if order == "arguments":
        source, target = target, source
    real_s, real_t = (_real(ids, pad_id, pad) for ids in (source, target))
    b, s, n = *source.shape, target.shape[1]
    i = np.arange(n)[:, None]
    keys_s, keys_t = real_s[:, None, None, :], real_t[:, None, None, :]
    early = {
        "strict": np.arange(n) < i, "later": np.arange(n) >= i,
    }.get(decoder, np.arange(n) <= i)  # fmt: skip
    of_decoder = {
        "no_causal": lambda: np.broadcast_to(keys_t, (b, 1, n, n)),
        "no_causal_short": lambda: keys_t,
        "no_padding": lambda: np.broadcast_to(early, (b, 1, n, n)),
        "no_padding_short": lambda: early[None, None],
        "queries": lambda: early & real_t[:, None, :, None],
        "queries_too": lambda: early & keys_t & real_t[:, None, :, None],
        "either": lambda: early | keys_t,
    }.get(decoder, lambda: early & keys_t)()
    of_encoder = {
        "causal": lambda: keys_s & np.tri(s, dtype=bool),
        "queries": lambda: keys_s & real_s[:, None, :, None],
        "of_queries": lambda: real_s[:, None, :, None],
        "expanded": lambda: np.broadcast_to(keys_s, (b, 1, s, s)),
        "all": lambda: np.ones_like(keys_s),
    }.get(encoder, lambda: keys_s)()
    of_cross = {
        "target": lambda: keys_t,
        "causal": lambda: keys_s & (np.arange(s) <= i),
        "causal_end": lambda: keys_s & (np.arange(s) <= i + s - n),
        "causal_alone": lambda: np.broadcast_to(np.arange(s) <= i, (b, 1, n, s)),
        "queries": lambda: keys_s & real_t[:, None, :, None],
        "of_queries": lambda: real_t[:, None, :, None],
        "turned": lambda: real_s[:, None, :, None],
        "expanded": lambda: np.broadcast_to(keys_s, (b, 1, n, s)),
        "turned_expanded": lambda: np.broadcast_to(real_s[:, None, :, None], (b, 1, s, n)),
        "all": lambda: np.ones_like(keys_s),
        "decoder": lambda: of_decoder,
    }.get(cross, lambda: keys_s)()
    masks = of_encoder, of_decoder, of_cross
    if order == "cross_second":
        masks = masks[0], masks[2], masks[1]
    elif order == "decoder_first":
        masks = masks[1], masks[0], masks[2]
    if polarity == "hides":
        masks = tuple(~m for m in masks)
    elif polarity == "cross_hides":
        masks = *masks[:2], ~masks[2]
    if axes == "two":
        masks = masks[0][:, 0, 0], masks[1][:, 0], masks[2][:, 0, 0]
    elif axes == "three":
        masks = tuple(m[:, 0] for m in masks)
    elif axes == "stacked":
        masks = list(masks)
    if form == "numbers":
        masks = tuple(m.astype(int) for m in masks)
    elif form in ("added", "added_big"):
        masks = tuple(np.where(m, 0.0, -np.inf if form == "added" else -1e9) for m in masks)
    return tuple(masks)


def _real(ids, pad_id, how):
    return {
        "zero": lambda: ids != 0, "above": lambda: ids > pad_id, "below": lambda: ids < pad_id,
        "positive": lambda: ids > 0,
        "first": lambda: np.cumsum(ids == pad_id, 1) == 0,
        "last": lambda: np.cumsum((ids != pad_id)[:, ::-1], 1)[:, ::-1] > 0,
        "counted": lambda: np.arange(ids.shape[1]) < (ids != pad_id).sum(1, keepdims=True),
        "first_sentence": lambda: np.repeat(ids[:1] != pad_id, len(ids), 0),
        "is_pad": lambda: ids == pad_id,
    }.get(how, lambda: ids != pad_id)()  # fmt: skip


_SAME = (
    "Whoever reads the source, be it the encoder or the decoder, must not read its padding: one mask for "
    "both."
)
three_masks = FunctionExercise(
    _masks,
    lambda: [
        Case("two sentences of 4 and 3 words", (np.array([[5, 3, 8, 0], [7, 2, 0, 0]]),
                                                 np.array([[4, 9, 6], [3, 0, 0]])),
             hint="Which text is read in each of the three? Its padding is what a mask hides."),
        Case("a target longer than the source", (np.array([[5, 3], [7, 0]]),
                                                 np.array([[4, 9, 6, 1, 0], [3, 2, 8, 8, 5]])),
             hint=_SAME),
        Case("source and target of one length", (np.array([[5, 3, 8], [7, 0, 0], [4, 4, 0]]),
                                                 np.array([[4, 0, 0], [3, 2, 0], [1, 6, 2]])),
             hint="Shapes tell nothing here of which text is which."),
        Case("padding with the id 1", (np.array([[5, 0, 8, 1], [7, 1, 1, 1]]),
                                       np.array([[0, 9, 1], [3, 5, 6]]), 1),
             hint="Does pad_id reach every comparison? 0 may be a word."),
        Case("padding with the id 9", (np.array([[5, 0, 8, 9, 9]]), np.array([[0, 2, 9]]), 9)),
        Case("padding on the left, with the id -1", (np.array([[-1, -1, 4, 6], [3, 7, 2, 2]]),
                                                     np.array([[-1, 5, 5], [4, 0, 3]]), -1),
             hint="Padding may stand on either side."),
        Case("one word each", (np.array([[5]]), np.array([[6]])),
             hint="Every axis stays, also one of size 1."),
        Case("as many sentences as words", (np.array([[5, 3, 0], [2, 0, 0], [4, 4, 4]]),
                                            np.array([[6, 0, 0], [1, 2, 0], [1, 1, 1]]))),
    ],
    (
        Mistake("cross_of_target", "In cross-attention the source is read, and your mask is that of the "
                                   "target. A mask belongs to the keys.", {"cross": "target"}),
        *(Mistake("cross_causal", "Your mask of cross-attention is causal. The source is there as a whole "
                                  "from the beginning: the first English word may need the last Chinese "
                                  "one.", {"cross": how})
          for how in ("causal", "causal_end", "causal_alone")),
        Mistake("cross_causal", "You give cross-attention the decoder's mask. It reads the source, and of "
                                "that nothing lies in the future.", {"cross": "decoder"}),
        *(Mistake("queries_masked", "In cross-attention you hide rows, the padded words of the target. "
                                    "What a padded query sees is thrown away later; a mask says which keys "
                                    "may be seen.",
                  {"cross": how}) for how in ("queries", "of_queries")),
        *(Mistake("cross_turned", "The source stands on the axis of the queries in your third mask. Keys are "
                  "the last axis.", {"cross": how}) for how in ("turned", "turned_expanded")),
        Mistake("cross_missing", "Your third mask hides nothing. The source has padding there too.",
                {"cross": "all"}),
        *(Mistake("not_broadcast", "Your mask is right, and written out for every query. (B, 1, 1, S) is "
                                   "asked for: it serves any number of queries.", {part: "expanded"})
          for part in ("cross", "encoder")),
        *(Mistake("decoder_not_causal", "The decoder's own words may see later ones in your second mask. In "
                  "training it would copy the word that it has to predict.", {"decoder": how})
          for how in ("no_causal", "no_causal_short")),
        *(Mistake("decoder_padding", "Your second mask is causal and lets padding through. Join the two with "
                                     "&.",
                  {"decoder": how}) for how in ("no_padding", "no_padding_short")),
        Mistake("decoder_padding", "Your second mask lets a key through that is early or real. It must be "
                                   "both.",
                {"decoder": "either"}),
        Mistake("without_itself", "A word must see itself: the diagonal belongs to the causal mask.",
                {"decoder": "strict"}),
        Mistake("causal_turned", "Your words see themselves and the later ones. Rows are queries.",
                {"decoder": "later"}),
        *(Mistake("queries_masked", "In the decoder you hide padded queries, rows. A mask says which keys "
                                    "may be seen; a row that is empty is a trap for the "
                                    "softmax.", {"decoder": how})
          for how in ("queries", "queries_too")),
        Mistake("encoder_causal", "Your first mask is causal. The encoder reads a sentence that is all "
                                  "there.",
                {"encoder": "causal"}),
        *(Mistake("queries_masked", "In the encoder you hide padded queries, rows. A mask says which keys "
                                    "may be seen.", {"encoder": how}) for how in ("queries", "of_queries")),
        Mistake("encoder_missing", "Your first mask hides nothing. The source has "
                                   "padding.", {"encoder": "all"}),
        Mistake("pad_id_ignored", "You compare with 0, whatever pad_id says. 0 may be a "
                                  "word.", {"pad": "zero"}),
        *(Mistake("pad_id_compared", "Ids are names: one that is larger or smaller than another means "
                                     "nothing. A token is padding where it equals pad_id.", {"pad": how})
          for how in ("above", "below", "positive")),
        *(Mistake("padding_on_one_side", told, {"pad": how}) for how, told in (
            ("first", "You hide everything from the first padding on. Real words may stand behind it."),
            ("last", "You hide only what stands behind the last word. Padding may stand before the first."),
            ("counted", "You count the words and show that many from the left. Padding may stand on the "
                        "left."),
        )),
        Mistake("first_sentence_for_all", "Every sentence has the mask of the first one.",
                {"pad": "first_sentence"}),
        Mistake("padding_shown", "Padding is shown and words are hidden. The causal part is as it should be.",
                {"pad": "is_pad"}),
        Mistake("mask_inverted", "True hides in your masks, as in torch.nn.MultiheadAttention. Here True may "
                "attend.", {"polarity": "hides"}, convention=True),
        Mistake("mask_inverted", "True hides in your third mask, and shows in the two others.",
                {"polarity": "cross_hides"}),
        Mistake("order_of_results", "The results are in another order. Encoder, decoder, cross-attention.",
                {"order": "cross_second"}),
        Mistake("order_of_results", "The results are in another order. Encoder, decoder, cross-attention.",
                {"order": "decoder_first"}),
        Mistake("texts_exchanged", "Source and target are exchanged: the encoder reads the source.",
                {"order": "arguments"}),
        Mistake("mask_shape", "The masks lack axes for heads and queries. (B, 1, 1, S), (B, 1, L, L) and "
                "(B, 1, 1, S) broadcast over all heads.", {"axes": "two"}),
        Mistake("mask_shape", "The masks lack the axis of the heads: (B, 1, ...).", {"axes": "three"}),
        Mistake("numbers", "Your masks hold 0 and 1. They are to be boolean: a mask of numbers is added to "
                           "the scores.", {"form": "numbers"}),
        *(Mistake("added_mask", "Your masks are those that are added to scores. Boolean ones are asked for.",
                  {"form": how}, convention=True) for how in ("added", "added_big")),
    ),
    "Checked with source and target of different and of equal length, with padding on either side and "
    "other ids for it. The first and the third are the same mask: both looks read the source. Only the "
    "second knows a future.",
)  # fmt: skip

EXERCISES = (
    Exercise(
        "who_asks", "11", who_asks,
        (
            "Three questions for each look. Who wants to know something? Those are the queries. Where is it "
            "looked up? Those are the keys. What is taken home? Those are the values.",
            "As many rows come back as there are queries. In the fifth, each patch gets something back.",
            "In the phrase book the sentence is compared with one column and takes home the other.",
        ),
        'answer = ("SSS", "TTT", "TSS", "TPP", "PSS", "SCE")',
        "prediction",
    ),
    Exercise(
        "three_shapes", "11", three_shapes,
        (
            "Weights are (B, H, queries, keys). Who asks in cross-attention, and how many are asked?",
            "There is an output for each query, as wide as the decoder. W_K takes in what is as wide as the "
            "memory and gives keys that are as wide as queries.",
            "The first of six words sees itself, the second sees two words, and so on.",
        ),
        "answer = ((2, 3, 6, 9), (2, 6, 12), (20, 12), (2, 3, 6, 6), 21)",
        "prediction",
    ),
    Exercise(
        "three_masks", "11", three_masks,
        (
            "A mask belongs to the keys. Which text do the keys come from in the encoder, in the decoder's "
            "own attention, in cross-attention?",
            "Compare with pad_id, and give the result axes for heads and queries: (B, 1, 1, S). The causal "
            "part concerns one of the three.",
            "The decoder's mask is padding & causal: (B, 1, 1, L) and (L, L) broadcast to (B, 1, L, L).",
        ),
        """import numpy as np

def three_masks(source, target, pad_id=0):
    encoder = (source != pad_id)[:, None, None, :]                 # (B, 1, 1, S)
    length = target.shape[1]
    causal = np.tri(length, dtype=bool)                            # (L, L)
    decoder = (target != pad_id)[:, None, None, :] & causal        # (B, 1, L, L)
    return encoder, decoder, encoder""",
        "function",
    ),
)  # fmt: skip
