"""Arithmetic that prose writes out, such as "3 × 4 = 12": found, and done again."""

import ast
import re
from decimal import Decimal

NUMBER = (
    r"(?:\d{1,3}(?:(?:[,\u2009\u202f]|\{,\})\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+\u2212]?\d+)?"
)
# Not a part of a name such as x2, W_1, GPT-3, or of a longer number.
ALONE = r"(?<![A-Za-z0-9_.])(?<![A-Za-z]-)"
PERCENT = r"(?:\s?\\?%)"

OPERAND = (
    rf"(?:\\frac\{{{NUMBER}\}}\{{{NUMBER}\}}|\\sqrt\{{{NUMBER}\}}|√{NUMBER}"
    rf"|{NUMBER}(?:\^\{{?\d+\}}?|²|{PERCENT})?)"
)
OPERATOR = r"(?:\\cdot|\\times|\\div|[·×÷*/+\u2212-])"
RELATION = r"(?:=|\u2248|\\approx|\b(?:is|is about|makes|gives|leaves)\b)"
EXPRESSION = rf"{OPERAND}(?:\s*{OPERATOR}\s*{OPERAND})*"
EQUATION = rf"{ALONE}({EXPRESSION})\s*{RELATION}\s*({EXPRESSION})"


def decimal(digits):
    """The value of a NUMBER."""
    return Decimal(re.sub(r"[,\u2009\u202f{}]", "", digits).replace("\u2212", "-"))


def unit(number):
    """What the last written digit of `number` counts: 0.01 for 0.74."""
    return Decimal(1).scaleb(number.as_tuple().exponent)


def equations(text):
    """Yield each equation between numbers as a match, with None or a sentence on its mistake."""
    for found in re.finditer(EQUATION, text):
        left, right = found[1].strip(), found[2].strip()
        plain = re.fullmatch(NUMBER, left) and re.fullmatch(NUMBER, right)
        if not plain and not _goes_on(text, found):
            yield found, _mistake(left, right)


def _goes_on(text, found):
    """Whether the equation is cut out of a longer one, with letters in it."""
    before, after = text[: found.start()].rstrip(), text[found.end() :]
    longer = re.search(rf"(?:{OPERATOR}|[({{^_=])$", before)
    return longer or re.match(rf"[A-Za-z^_(]|\s*{OPERATOR}\s*[\w\\(]|\s*\\(?![%,;)]|q?quad)", after)


def _mistake(left, right):
    wanted = re.fullmatch(rf"({NUMBER}){PERCENT}?", right)
    slack = unit(decimal(wanted[1])) / 2 if wanted else Decimal("1e-9")
    scale = 100 if "%" in right and "%" not in left else 1
    result = _value(left) * scale
    if abs(result - _value(right)) > slack:
        return f"{left} is {result:.6g}, not {right}"
    return None


def _value(expression):
    """The value of an EXPRESSION; percent signs are left out."""
    plain = re.sub(PERCENT, "", expression)
    plain = re.sub(rf"\\frac\{{({NUMBER})\}}\{{({NUMBER})\}}", r"(\1/\2)", plain)
    plain = re.sub(rf"\\sqrt\{{({NUMBER})\}}|√({NUMBER})", r"(\1\2)**0.5", plain)
    plain = re.sub(r"\^\{?(\d+)\}?", r"**\1", plain).replace("²", "**2")
    plain = re.sub(r"\\cdot|\\times|[·×]", "*", plain)
    plain = re.sub(r"\\div|÷", "/", plain).replace("\u2212", "-")
    plain = re.sub(NUMBER, lambda number: f"{decimal(number[0]).normalize():f}", plain)
    return _calculate(ast.parse(plain.replace(" ", ""), mode="eval").body)


def _calculate(node):
    if isinstance(node, ast.Constant):
        return Decimal(repr(node.value))
    left, right = _calculate(node.left), _calculate(node.right)
    if isinstance(node.op, ast.Pow):
        return left**right
    if isinstance(node.op, ast.Mult):
        return left * right
    if isinstance(node.op, ast.Div):
        return left / right if right else Decimal("inf")
    return left + right if isinstance(node.op, ast.Add) else left - right
