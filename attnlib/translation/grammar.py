"""Sentences drawn at random, each a way to say something in Chinese and in English.

Chinese says when and where before the verb and English after it; Chinese leaves the word that asks in its
place and hangs a clause before its noun. So in about half of the pairs some links cross.
"""

from attnlib.translation.lexicon import (
    ACTIONS,
    ANIMALS,
    BUY,
    DAILY,
    EAT,
    FRIEND,
    FUTURE,
    HE,
    LIKE,
    MOODS,
    NOW,
    ON_THINGS,
    PAST,
    PEOPLE,
    PRONOUNS,
    SEE,
    SHE,
    STATE,
    STATES,
    TIMES,
    UNWELCOME,
    WANT,
    WHO_ACTS,
    Pronoun,
)  # fmt: skip
from attnlib.translation.phrases import (
    NOTHING,
    Phrase,
    action,
    all_of,
    counted,
    pick,
    place,
    pronoun,
    the,
    time,
)  # fmt: skip
from attnlib.translation.words import En, Zh, make_pair

THINGS_DONE_TO_THINGS = tuple(verb for verb in ON_THINGS if PAST in verb.tenses)


def draw_pair(rng):
    """One sentence, of a kind that is drawn first."""
    return pick(rng, KINDS)(rng)


def statement(rng):
    """我 昨天 在 公园 吃了 一个 苹果"""
    return _act(rng, *_verb_and_tense(rng))


def commented(rng):
    """我 吃了 一个 苹果 ， 它 很 甜"""
    verb = pick(rng, (*THINGS_DONE_TO_THINGS, SEE))
    noun = pick(rng, verb.objects)
    who = _subject(rng, verb, noun, speakers=noun in PEOPLE)
    thing = counted(rng, noun, "one" if noun in PEOPLE else ("one", "one", "two"))
    did = action(verb, PAST, who, asks=None)
    when, where = _maybe_time(rng, PAST, 0.2), NOTHING
    zh, en = _arrange(rng, who, did, thing, where, when)
    comma, very = Zh("，"), Zh("很")
    name = pick(rng, (HE, SHE)) if noun in PEOPLE else None
    it = Zh(name.zh if name else "它们" if thing.plural else "它")
    says = [quality for quality in noun.predicates if quality.scale != thing.scale]
    quality = pick(rng, says)
    how = Zh(quality.predicate)
    but = [Zh("但是")] if quality in UNWELCOME and rng.random() < 0.5 else []
    zh += [comma, *but, it, very, how]
    en += [En(",", [comma]), *(En("but", [word]) for word in but),
           En(name.subject if name else "they" if thing.plural else "it", [it]),
           En("were" if thing.plural else "was", [very]), En(quality.en, [how])]  # fmt: skip
    return make_pair(zh, en)


def denial(rng):
    """我 没 读 这本 书"""
    verb, tense = _verb_and_tense(rng, (PAST, FUTURE, WANT))
    return _act(rng, verb, tense, negative=True)


def yes_or_no(rng):
    """你 读了 这本 书 吗 ？"""
    verb, tense = _verb_and_tense(rng)
    return _act(rng, verb, tense, question=True)


def what(rng):
    """你 想 买 什么 ？"""
    verb, tense = _verb_and_tense(rng, (PAST, NOW, FUTURE, WANT))
    what_or_who = "什么" if verb in ON_THINGS else "谁"
    asked, mark = Zh(what_or_who), Zh("？")
    who = _subject(rng, verb, None, asks=True)
    where, when = _maybe_place(rng, verb, 0.25), _maybe_time(rng, tense, 0.25)
    did = action(verb, tense, who, where=where)
    zh, _ = _arrange(rng, who, did, Phrase([asked], [], None), where, when)
    en = [En("what" if verb in ON_THINGS else "who", [asked]), *did.auxiliary, *who.en, *did.main, *where.en,
          *when.en, En("?", [mark])]  # fmt: skip
    return make_pair([*zh, mark], en)


def who(rng):
    """谁 吃了 这个 苹果 ？"""
    verb, tense = _verb_and_tense(rng, (PAST, NOW, FUTURE, WANT))
    asked, mark = Zh("谁"), Zh("？")
    somebody = Phrase([asked], [En("who", [asked])], None)
    thing = _object(rng, verb, tense, somebody, ("this", "own"))
    where, when = _maybe_place(rng, verb, 0.25), NOTHING
    did = action(verb, tense, somebody, asks=None, where=where)
    zh, en = _arrange(rng, somebody, did, thing, where, when)
    return make_pair([*zh, mark], [*en, En("?", [mark])])


def where(rng):
    """你 在 哪里 买了 这本 书 ？"""
    verb, tense = _verb_and_tense(rng, (PAST, FUTURE))
    at, asked, mark = Zh("在"), Zh("哪里"), Zh("？")
    who = _subject(rng, verb, None, asks=True)
    thing = _object(rng, verb, tense, who, ("this", "own"))
    did = action(verb, tense, who)
    when = _maybe_time(rng, tense, 0.25)
    zh, _ = _arrange(rng, who, did, thing, Phrase([at, asked], [], None), when)
    en = [En("where", [asked], [at]), *did.auxiliary, *who.en, *did.main, *thing.en, *when.en,
          En("?", [mark])]  # fmt: skip
    return make_pair([*zh, mark], en)


def feeling(rng):
    """我 爱 你, 他 也 喜欢 苹果, 你 不 喜欢 我, 她 喜欢 什么 ？"""
    verb, kind = pick(rng, STATES), pick(rng, ("so", "so", "so", "too", "not", "not", "asks", "what", "who"))
    asks = kind in ("asks", "what")
    mark, particle = Zh("？"), Zh("吗")
    somebody = Zh("谁")
    who = Phrase([somebody], [En("who", [somebody])], None) if kind == "who" else _subject(
        rng, verb, None, asks=asks)  # fmt: skip
    if kind == "what":
        which = pick(rng, ("什么", "谁")) if verb is LIKE else "谁"
        asked = Zh(which)
        did = action(verb, STATE, who)
        en = [En("what" if which == "什么" else "who", [asked]), *did.auxiliary, *who.en, *did.main]
        return make_pair([*who.zh, did.verb, asked, mark], [*en, En("?", [mark])])
    thing = _liked(rng, verb, who)
    did = action(verb, STATE, who, asks=[particle] if asks else None, negative=kind == "not")
    also = [Zh("也")] if kind == "too" else []
    zh = [*who.zh, *also, *did.before, did.verb, *thing.zh]
    if asks:
        return make_pair([*zh, particle, mark],
                         [*did.auxiliary, *who.en, *did.main, *thing.en, En("?", [mark])])  # fmt: skip
    en = [*who.en, *did.auxiliary, *did.main, *thing.en, *(En("too", [word]) for word in also)]
    return make_pair([*zh, mark], [*en, En("?", [mark])]) if kind == "who" else make_pair(zh, en)


def quality(rng):
    """这本 书 很 有趣, 我 昨天 很 累, 你 累 吗 ？"""
    kind = pick(rng, ("so", "so", "too", "not", "asks"))
    who, qualities = _described(rng, asks=kind == "asks")
    adjective = pick(rng, qualities)
    how = Zh(adjective.predicate)
    adjective = En(adjective.en, [how])
    if kind == "asks":
        particle, mark = Zh("吗"), Zh("？")
        en = [En(who.be(), possible=[particle, how]), *who.en, adjective, En("?", [mark])]
        return make_pair([*who.zh, how, particle, mark], en)
    if kind == "not":
        no = Zh("不")
        en = [*who.en, En(who.be(), possible=[no, how]), En("not", [no]), adjective]
        return make_pair([*who.zh, no, how], en)
    very = Zh("很")
    when = _maybe_time(rng, PAST, 0.4) if qualities is MOODS and kind == "so" else NOTHING
    also = [Zh("也")] if kind == "too" else []
    en = [*who.en, En(who.be(past=bool(when.zh)), [very]), adjective, *when.en]
    return make_pair([*_time_near(rng, who, when), *also, very, how],
                     [*en, *(En("too", [word]) for word in also)])  # fmt: skip


def what_was_done(rng):
    """我 昨天 买 的 书 很 有趣"""
    thing, qualities, zh, en = _thing_of_clause(rng, None)
    very, adjective = Zh("很"), pick(rng, qualities)
    how = Zh(adjective.predicate)
    return make_pair([*zh, *thing.zh, very, how],
                     [*thing.en, *en, En("was", [very]), En(adjective.en, [how])])  # fmt: skip


def liking_what_was_done(rng):
    """我 喜欢 你 写 的 书"""
    who = _subject(rng, LIKE, None)
    thing, _, zh, en = _thing_of_clause(rng, who)
    did = action(LIKE, STATE, who, asks=None)
    return make_pair([*who.zh, did.verb, *zh, *thing.zh], [*who.en, *did.main, *thing.en, *en])


def who_did_it(rng):
    """买了 这本 书 的 学生 很 高兴"""
    verb = pick(rng, (*THINGS_DONE_TO_THINGS, SEE))
    person, very, whose = the(pick(rng, WHO_ACTS)), Zh("很"), Zh("的")
    thing = _object(rng, verb, PAST, person, ("this", "own"))
    did, adjective = action(verb, PAST, person, asks=None), pick(rng, MOODS)
    how = Zh(adjective.predicate)
    return make_pair([did.verb, *thing.zh, whose, *person.zh, very, how],
                     [*person.en, En("who", [whose]), *did.main, *thing.en, En("was", [very]),
                      En(adjective.en, [how])])  # fmt: skip


# Drawn in these proportions.
KINDS = (
    *[statement] * 12, *[commented] * 6, *[denial] * 3, *[yes_or_no] * 3, *[what] * 3, *[who] * 2,
    *[where] * 2, *[feeling] * 5, *[quality] * 4, *[what_was_done] * 3, *[liking_what_was_done] * 2,
    *[who_did_it] * 2,
)  # fmt: skip


def _act(rng, verb, tense, *, negative=False, question=False):
    """Somebody does something, or does not, or is asked about it."""
    who = _subject(rng, verb, None, asks=question)
    definite = negative or (question and tense in (PAST, NOW))
    if definite:
        kinds = ("this", "own")
    else:
        kinds = {DAILY: ("one", "two"), NOW: ("one", "this", "own")}.get(tense, ("one", "two", "this", "own"))
    if question and tense in (FUTURE, WANT):
        kinds = ("one", "this", "own")
    thing = _object(rng, verb, tense, who, kinds)
    where = _maybe_place(rng, verb, 0.25)
    also = not negative and not question and tense != DAILY and rng.random() < 0.12
    when = NOTHING if also else _maybe_time(rng, tense, 1 if tense == DAILY else 0.25)
    particle = Zh("吗")
    did = action(verb, tense, who, asks=[particle] if question else None, negative=negative, where=where)
    zh, en = _arrange(rng, who, did, thing, where, when, [Zh("也")] if also else [], question)
    if question:
        mark = Zh("？")
        return make_pair([*zh, particle, mark], [*en, En("?", [mark])])
    return make_pair(zh, en)


def _arrange(rng, who, did, thing, where, when, also=(), question=False):
    """The order of both languages."""
    zh = [*_time_near(rng, who, when), *also, *did.before, *where.zh, did.verb, *thing.zh]
    start = [*did.auxiliary, *who.en] if question else [*who.en, *did.auxiliary]
    return zh, [*start, *did.main, *thing.en, *where.en, *when.en, *(En("too", [word]) for word in also)]


def _time_near(rng, who, when):
    """Chinese says when before or after who."""
    return [*when.zh, *who.zh] if rng.random() < 0.4 else [*who.zh, *when.zh]


def _verb_and_tense(rng, tenses=tuple(TIMES)):
    verb = pick(rng, [verb for verb in ACTIONS if set(verb.tenses) & set(tenses)])
    return verb, pick(rng, [tense for tense in verb.tenses if tense in tenses])


def _maybe_time(rng, tense, chance):
    return time(rng, tense) if rng.random() < chance else NOTHING


def _maybe_place(rng, verb, chance):
    return place(pick(rng, verb.places)) if verb.places and rng.random() < chance else NOTHING


def _subject(rng, verb, noun, *, asks=False, speakers=False):
    """Who acts. Nobody asks what he does himself; ``speakers``: I, you and we alone."""
    if speakers:
        return pronoun(pick(rng, [which for which in PRONOUNS if which.kind in (1, 2)]))
    chance = rng.random()
    if chance < 0.6:
        return pronoun(pick(rng, [which for which in PRONOUNS if not asks or which.kind != 1]))
    if chance < 0.7:
        return counted(rng, FRIEND, "own", adjective=False)
    actors = WHO_ACTS + ANIMALS if verb in (EAT, SEE) else WHO_ACTS
    return the(pick(rng, [other for other in actors if other is not noun]))


def _object(rng, verb, tense, who, kinds):
    """What the verb is done to: a thing, or somebody else than who does it."""
    if verb not in ON_THINGS and rng.random() < 0.5:
        return _other_person(rng, who)
    kinds = [kind for kind in kinds if kind != "own" or verb is not BUY]  # one buys what one does not own
    return counted(rng, pick(rng, [noun for noun in verb.objects if noun is not who.what]), kinds)


def _other_person(rng, who):
    kind = who.what.kind if isinstance(who.what, Pronoun) else 0
    near = {3: (3, 4), 4: (3, 4)}.get(kind, (kind,))
    return pronoun(pick(rng, [which for which in PRONOUNS if which.kind not in near]), acts=False)


def _liked(rng, verb, who):
    chance = rng.random()
    if chance < 0.4:
        return _other_person(rng, who)
    noun = pick(rng, [noun for noun in verb.objects if noun is not who.what])
    return all_of(noun) if chance < 0.7 else counted(rng, noun, ("this", "own"))


def _described(rng, asks):
    """Somebody in a mood, or something with its qualities."""
    if rng.random() < 0.4:
        return _subject(rng, None, None, asks=asks), MOODS
    verb = pick(rng, (*ON_THINGS, SEE))
    noun = pick(rng, [noun for noun in verb.objects if noun not in PEOPLE])
    thing = counted(rng, noun, ("this", "own"))
    return thing, [quality for quality in noun.predicates if quality.scale != thing.scale]


def _thing_of_clause(rng, other):
    """A thing, its qualities, and the clause that says who did what to it, in both languages."""
    verb = pick(rng, (*THINGS_DONE_TO_THINGS, SEE))
    noun = pick(rng, [noun for noun in verb.objects if noun not in PEOPLE])
    who = _subject(rng, verb, noun)
    while other is not None and (who.what is other.what or _same_person(who, other)):
        who = _subject(rng, verb, noun)
    where = _maybe_place(rng, verb, 0.25) if other is None else NOTHING
    when = _maybe_time(rng, PAST, 0.3) if other is None and not where.zh else NOTHING
    word, of = Zh(verb.zh), Zh("的")
    zh = [*_time_near(rng, who, when), *where.zh, word, of]
    en = [En("that", [of]), *who.en, En(verb.past, [word]), *where.en, *when.en]
    return the(noun), list(noun.predicates), zh, en


def _same_person(a, b):
    return isinstance(a.what, Pronoun) and isinstance(b.what, Pronoun) and a.what.kind == b.what.kind
