"""Pages of a cache that conversations share until somebody writes, of lesson 19."""

from functools import partial

import numpy as np

from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake, rare_but


def _write(
    blocks, users, table, length, token, *, needs="when_full", shared="copied", placed="replaced",
    copied="all", released="one", counted="one", free="lowest", slot="right", at="last", full="new",
):  # fmt: skip
    blocks, users, table = blocks.copy(), users.copy(), [*table]
    size = blocks.shape[1]
    needed = {"when_full": length % size == 0, "always": True, "early": not table or (length + 1) % size == 0,
              "late": not table or length % size == 1, "once": not table}[needs]  # fmt: skip
    others = bool(table) and users[table[-1]] > 1
    if shared == "always":
        others = bool(table)
    elif shared == "ignored":
        others = False
    elif shared == "two":
        others = bool(table) and users[table[-1]] > 2
    if needed and not (full == "copied_too" and others):
        table.append(_take(users, table, free, counted))
        if full.endswith("released") and len(table) > 1:
            users[table[-2]] -= 1
        if full == "copied_and_released" and len(table) > 1:
            blocks[table[-1]] = blocks[table[-2]]
    elif others:
        old = table[-1]
        new = _take(users, table, free, counted)
        if copied == "all":
            blocks[new] = blocks[old]
        elif copied == "first":
            blocks[new, 0] = blocks[old, 0]
        if released == "one":
            users[old] -= 1
        elif released == "all":
            users[old] = 0
        elif released == "first":
            users[table[0]] -= 1
        if placed == "replaced":
            table[-1] = new
        else:
            table.append(new)
        if full == "copied_too" and needed:
            table.append(_take(users, table, free, counted))
    here = {"right": length, "next": length + 1, "first": 0, "before": length - 1}[slot] % size
    where = table[{"last": -1, "by_length": min(length // size, len(table) - 1), "first": 0}[at]]
    blocks[where, here] = token
    return blocks, users, table


def _take(users, table, free, counted):
    at = np.flatnonzero(users == 0)
    new = {
        "lowest": at[0], "highest": at[-1], "next": min(len(users) - 1, (table[-1] + 1) if table else 0),
        "after_all": min(len(users) - 1, int(np.flatnonzero(users > 0).max(initial=-1)) + 1),
        "as_counted": min(len(users) - 1, len(table)),
    }[free]  # fmt: skip
    if counted == "one":
        users[new] += 1
    elif counted == "set":
        users[new] = 2
    return int(new)


def _play(function, size, n_blocks, script):
    """Conversations that write, fork and end: what each then reads, the tables, and the users of blocks."""
    blocks = np.random.default_rng(size).normal(size=(n_blocks, size, 2))     # old numbers everywhere
    users = np.zeros(n_blocks, int)
    tables, lengths = [[]], [0]
    for step, (what, who) in enumerate(script):
        if what == "fork":
            tables.append([*tables[who]])
            lengths.append(lengths[who])
            users[tables[who]] += 1
        elif what == "end":
            users[tables[who]] -= 1
            tables[who], lengths[who] = [], 0
        else:
            token = np.array([100.0 * who + step, step / 8])
            result = function(blocks.copy(), users.copy(), [*tables[who]], lengths[who], token)
            blocks, users, tables[who] = _checked(result, blocks, users)
            lengths[who] += 1
    told = []
    for table, length in zip(tables, lengths, strict=True):
        if len(table) * size < length:
            raise ValueError(f"a table of {len(table)} blocks has no room for {length} tokens")
        told += [blocks[table[t // size], t % size] for t in range(length)]
    most = max(map(len, tables))
    return np.array(told), np.array([[*table, *[-1] * (most - len(table))] for table in tables]), users


def _checked(result, blocks, users):
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        raise TypeError("three results are needed: blocks, users and table, joined by commas")
    new_blocks, new_users, table = (np.array(part) for part in result)
    if new_blocks.shape != blocks.shape or new_users.shape != users.shape:
        raise ValueError(
            f"blocks and users must keep their shapes, {blocks.shape} and {users.shape}; got "
            f"{new_blocks.shape} and {new_users.shape}"
        )
    if table.ndim != 1 or not table.size or (table != np.round(table)).any():
        raise ValueError("the table must be a list of numbers of blocks, one at least")
    if table.min() < 0 or table.max() >= len(users):
        raise ValueError(f"the table names block {table.max():g}, and blocks are 0 to {len(users) - 1}")
    return new_blocks, new_users.astype(int), [int(block) for block in table]


def _compute(size, n_blocks, script, **choices):
    return _play(partial(_write, **choices), size, n_blocks, script)


def _cases():
    def writes(who, n):
        return (("write", who),) * n

    fork = (("fork", 0),)
    return [
        Case("one conversation of seven tokens, blocks of three", (3, 6, writes(0, 7)),
             hint="A new block is taken when the last one is full, and the slot is what is left over."),
        Case("seven tokens, a fork, and a token for each of the two", (
            3, 8, writes(0, 7) + fork + writes(1, 1) + writes(0, 1)),
             hint="The first to write gets a copy, the second finds the block its own."),
        Case("eight tokens and two forks, then each writes", (
            3, 10, writes(0, 8) + fork * 2 + writes(2, 1) + writes(0, 2) + writes(1, 1)),
             hint="Three share a block with two tokens. Two copies are made, of both tokens."),
        Case("a fork where the last block is full", (4, 8, writes(0, 8) + fork + writes(1, 1) + writes(0, 2)),
             hint="Nobody writes into a full block, so nothing is copied."),
        Case("a fork of a fork", (
            2, 14, writes(0, 3) + fork + writes(1, 2) + (("fork", 1),) + writes(2, 1) + writes(1, 1)
            + writes(0, 2)),
             hint="A conversation may share some blocks with one other and some with two."),
        Case("a conversation that ends and leaves its blocks", (
            2, 9, writes(0, 3) + fork + writes(1, 4) + (("end", 0),) + writes(1, 3)),
             hint="Blocks whose users are 0 are free again. The lowest is taken first."),
        Case("blocks of one token", (1, 7, writes(0, 2) + fork + writes(1, 2) + writes(0, 1)),
             hint="Every block is full."),
        Case("a first token", (3, 2, writes(0, 1)), hint="The table is empty before it."),
    ]  # fmt: skip


_MISTAKES = (
    Mistake("written_in_place", "A block that others read is written to, and they read the word too. Copy it "
            "first.", {"shared": "ignored"}),
    Mistake("copy_not_in_table", "The copy is put behind the shared block, and that one is still in the "
            "table. The copy takes its place.", {"placed": "appended"}),
    Mistake("copy_not_in_table", "The copy is put behind the shared block, which stays in the table and is "
            "written to. The copy takes its place.", {"placed": "appended", "at": "by_length"}),
    Mistake("as_it_was", "This does what the function of the exercise does: the new block is put behind the "
            "shared one, and that one is written to.",
            {"placed": "appended", "at": "by_length", "copied": "nothing", "released": "no"}),
    Mistake("copy_not_in_table", "The new block is put behind the shared one, which is still in the table. "
            "It takes its place; and look at what is in it, and at who still counts as a user of the old.",
            {"placed": "appended", "copied": "nothing", "released": "no"}),
    Mistake("nothing_copied", "The new block is given the token alone. What stood in the shared one must be "
            "copied.", {"copied": "nothing"}),
    Mistake("first_slot_copied", "One slot is copied. All that is filled must be.", {"copied": "first"}),
    Mistake("not_released", "The block that was copied still counts the conversation that left it. The last "
            "to write then copies for nothing, and the block is never free.", {"released": "no"}),
    Mistake("all_released", "The block that was copied is set free, though others still read it.",
            {"released": "all"}),
    Mistake("wrong_block_released", "The conversation leaves its first block in place of the one that was "
            "copied.",
            {"released": "first"}),
    Mistake("new_not_counted", "A block that is taken gets no user, so it is taken again by the next.",
            {"counted": "no"}),
    Mistake("new_counted_twice", "A block that is taken gets two users.", {"counted": "set"}),
    Mistake("always_copied", "The block is copied though nobody shares it.", {"shared": "always"}),
    Mistake("copied_from_three_on", "A block is copied when more than two use it. Two are enough.",
            {"shared": "two"}),
    Mistake("full_block_copied", "A full block is copied when it is shared. Nobody writes into it: take a "
            "new one and leave it.", {"full": "copied_too"}),
    Mistake("full_block_released", "A full block counts one user less when the next is taken, though the "
            "conversation goes on reading it. Only who leaves a block for a copy is no longer its user.",
            {"full": "released"}),
    Mistake("full_block_released", "A full block is copied too, and counts one user less, though the "
            "conversation goes on reading it. That is for a block that is left for a copy.",
            {"full": "copied_and_released"}),
    Mistake("block_for_each_token", "Every token gets a block of its own. A block has room for more.",
            {"needs": "always"}),
    Mistake("block_too_early", "A new block is taken one token too early.", {"needs": "early"}),
    Mistake("block_too_late", "A new block is taken one token too late, and the token wraps round to slot 0 "
            "of the old.", {"needs": "late"}),
    Mistake("no_new_block", "No new block is taken when the last is full, so its first slots are "
            "overwritten.",
            {"needs": "once"}),
    Mistake("highest_free", "The free block with the highest number is taken. The lowest was asked for.",
            {"free": "highest"}),
    Mistake("block_not_free", "The block after the last one is taken, whoever uses it. Look for one without "
            "users.",
            {"free": "next"}),
    Mistake("block_not_free", "The length of the table is taken for a block's number. Look for one without "
            "users.",
            {"free": "as_counted"}),
    Mistake("freed_blocks_lost", "The block after the last one in use is taken, so blocks that became free "
            "are never used again.", {"free": "after_all"}),
    Mistake("slot_too_far", "The token is written one slot too far. Token `length` is the next, counted "
            "from 0.",
            {"slot": "next"}),
    Mistake("slot_too_early", "The token is written over the one before it.", {"slot": "before"}),
    Mistake("slot_zero", "Every token is written to slot 0.", {"slot": "first"}),
    Mistake("first_block_written", "Tokens are written to the first block of the table. The last has room.",
            {"at": "first"}),
)  # fmt: skip

_IN_PAIRS = {"written_in_place", "copy_not_in_table", "nothing_copied", "not_released", "full_block_copied",
             "highest_free", "new_not_counted", "slot_too_far", "always_copied"}  # fmt: skip

page_write = FunctionExercise(
    _compute,
    _cases,
    rare_but(_IN_PAIRS, _MISTAKES),
    "Checked with conversations that write, fork, fork again and end: each reads its own words, no block is "
    "copied that nobody shares, and blocks count their users rightly, so that what is left is free again.",
    drive=_play,
)

_SOLUTION = '''
import numpy as np


def page_write(blocks, users, table, length, token):
    size, table = blocks.shape[1], [*table]
    full = length % size == 0
    if full or users[table[-1]] > 1:
        new = int(np.flatnonzero(users == 0)[0])
        users[new] += 1
        if full:
            table.append(new)                       # the old block stays as it is, shared or not
        else:
            blocks[new] = blocks[table[-1]]         # a copy takes the shared block's place
            users[table[-1]] -= 1
            table[-1] = new
    blocks[table[-1], length % size] = token
    return blocks, users, table
'''

EXERCISES = (
    Exercise(
        "page_write", "19", page_write,
        (
            "Play it with blocks of three, seven tokens and one fork. Write down table and users before and "
            "after each of the two writes.",
            "When the last block is full a new one goes behind it. When it is shared a copy goes into its "
            "place. The function does the first in both cases.",
            "A copy has the old block's tokens in it, and the old block has one user less. There are three "
            "things to add or change, all in the case that is not full.",
        ),
        _SOLUTION, "function",
    ),
)  # fmt: skip
