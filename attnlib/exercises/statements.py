"""Which of several statements hold: their letters in one text."""

from attnlib.exercises.answers import short
from attnlib.exercises.verdict import right, unreadable, wrong


def which_hold(answer, statements, praise):
    """The verdict on letters.

    Parameters
    ----------
    answer
        What was typed: letters in one text, in any order.
    statements : dict
        Letter to (whether it holds, a name for who takes it for the other, what to look at then).
    praise : str
        What is said where all letters are right.
    """
    asked = f'letters from {min(statements)} to {max(statements)} in quotes, such as "AC"'
    given = {letter for letter in answer.upper() if letter.isalpha()} if isinstance(answer, str) else set()
    if not given or not given <= set(statements):
        return unreadable(f"Give {asked}; got {short(answer)}.")
    holding = {letter for letter, (holds, _, _) in statements.items() if holds}
    false, missing = sorted(given - holding), sorted(holding - given)
    if not false and not missing:
        return right(praise)
    first = (false or missing)[0]
    _, name, told = statements[first]
    said = "does not hold" if false else "holds, and your answer leaves it out"
    more = len(false) + len(missing) - 1
    rest = f" ({more} more {'letter is' if more == 1 else 'letters are'} to be thought over.)" if more else ""
    return wrong(f"{first} {said}. {told}{rest}", name)
