"""The parts of a sentence in both languages at once: who acts, what is done, to what, where and when."""

from typing import NamedTuple

from attnlib.translation.lexicon import (
    DAILY,
    FUTURE,
    NOW,
    PAST,
    PLACES,
    POSSESSIVES,
    STATE,
    TIMES,
    WANT,
    Noun,
    Pronoun,
)  # fmt: skip
from attnlib.translation.words import En, Zh


def pick(rng, items):
    """One of ``items``, all equally likely."""
    return items[int(rng.random() * len(items))]


class Phrase(NamedTuple):
    """Words for something. ``what`` is its noun or pronoun; ``scale`` that of the adjective it bears."""

    zh: list[Zh]
    en: list[En]
    what: Noun | Pronoun | None
    plural: bool = False
    scale: str = ""

    @property
    def third(self):
        """Whether an English verb takes an s after it."""
        return not self.plural and not (isinstance(self.what, Pronoun) and self.what.kind in (1, 2))

    def be(self, past=False):
        """The form of *to be* after it."""
        if isinstance(self.what, Pronoun) and self.what.kind == 1 and not self.plural:
            return "was" if past else "am"
        return ("was" if past else "is") if self.third else ("were" if past else "are")


def pronoun(which, *, acts=True):
    """A pronoun as the subject or as the object."""
    word = Zh(which.zh)
    return Phrase([word], [En(which.subject if acts else which.object, [word])], which, which.plural)


def the(noun):
    """A noun that stands alone in Chinese and has *the* in English."""
    word = Zh(noun.zh)
    return Phrase([word], [En("the", possible=[word]), En(noun.en, [word])], noun)


def all_of(noun):
    """A noun that stands alone in Chinese and is meant in general: *apples*."""
    word = Zh(noun.zh)
    return Phrase([word], [En(noun.plural, [word])], noun, True)


def counted(rng, noun, how, adjective=True):
    """A noun with *one*, *two* or *this* and its measure word, or with an owner (*own*).

    ``how`` is one of these or several to choose from; an adjective comes in three of ten.
    """
    how = how if isinstance(how, str) else pick(rng, how)
    word, plural = Zh(noun.zh), how == "two"
    if how == "own":
        owner = pick(rng, list(POSSESSIVES))
        first = Zh(owner)
        en = [En(POSSESSIVES[owner], [first])]
    else:
        zh, article = {"one": ("一", "a"), "two": ("两", "two"), "this": ("这", "this")}[how]
        first = Zh(zh + noun.measure)
        en = [En(article, [first])]
        if noun.vessel:
            en += [En(noun.vessel[plural], [first]), En("of", possible=[first])]
    zh, scale = [first], ""
    if adjective and noun.attributes and rng.random() < 0.3:
        quality = pick(rng, noun.attributes)
        zh.append(Zh(quality.attribute))
        en.append(En(quality.en, [zh[-1]]))
        scale = quality.scale
    return Phrase([*zh, word], [*en, En(noun.plural if plural else noun.en, [word])], noun, plural, scale)


def place(name):
    """Where: 在 and a place."""
    at, where = Zh("在"), Zh(name)
    preposition, *article, noun = PLACES[name]
    en = [En(preposition, [at]), *(En(word, possible=[where]) for word in article), En(noun, [where])]
    return Phrase([at, where], en, None)


def time(rng, tense):
    """When: one word in Chinese, one or two in English."""
    name = pick(rng, list(TIMES[tense]))
    word = Zh(name)
    return Phrase([word], [En(text, [word]) for text in TIMES[tense][name]], None)


NOTHING = Phrase([], [], None)


class Action(NamedTuple):
    """A verb in its tense. English puts ``auxiliary`` before the subject of a question."""

    before: list[Zh]  # what stands before the place
    verb: Zh
    auxiliary: list[En]
    main: list[En]


def action(verb, tense, subject, *, asks=(), negative=False, where=NOTHING):
    """A verb as ``subject`` needs it.

    ``asks`` is None in a statement; in a question the Chinese words that the English auxiliary may stand for.
    """
    question = asks is not None
    word = Zh(verb.zh + "了" * (tense == PAST and not negative))
    no, asked = Zh("没" if tense == PAST else "不"), tuple(asks or ())
    before, auxiliary, main = [no] * negative, [], [En(verb.base, [word])]
    do = "did" if tense == PAST else "does" if subject.third else "do"
    inflected = verb.past if tense == PAST else verb.third if subject.third else verb.base
    if tense == NOW:
        at = where.zh[0] if where.zh else Zh("在")
        before = [] if where.zh else [at]
        sure, possible = ([], [at, word]) if where.zh else ([at], [word])
        auxiliary = [En(subject.be(), sure, [*possible, *asked])]
        main = [En(verb.ing, [word], [at])]
    elif tense == FUTURE:
        will = Zh("会")
        before.append(will)
        auxiliary = [En("will", [will], asked)]
    elif tense == WANT:
        want = Zh("想")
        before.append(want)
        wants = "wants" if subject.third and not (question or negative) else "want"
        main = [En(wants, [want]), En("to", possible=[want, word]), *main]
        if question or negative:
            auxiliary = [En(do, possible=[no if negative else want, *asked])]
    elif tense in (PAST, DAILY, STATE):
        if question or negative:
            auxiliary = [En(do, possible=[no if negative else word, *asked])]
        else:
            main = [En(inflected, [word])]
    if negative:
        auxiliary.append(En("not", [no]))
    if verb.particle:
        main.append(En(verb.particle, possible=[word]))
    return Action(before, word, auxiliary, main)
