"""Numbers in the prose come from a neighbouring cell; and the lint that says so is right."""

from decimal import Decimal

import lesson
import pytest
from lints.numbers import cell_problems, code_numbers, prose_numbers


@pytest.mark.parametrize("path", lesson.lesson_paths(), ids=lambda path: path.stem)
def test_lesson(path):
    findings = list(prose_numbers(lesson.read(path)))
    assert not findings, "\n".join(["", *findings])


def problems(text, *known, allowed=(), code=""):
    return list(cell_problems(text, set(map(Decimal, known)), allowed, code))


AGREE = [
    ("0.74", "0.7412"),
    ("0.74", "0.745"),
    ("-0.74 or −0.74", "0.74"),
    ("74 %", "0.7412"),
    ("74%", "0.7412"),
    (r"$74\,\%$ or $74\%$", "74.3"),
    ("99.97 %", "0.9997"),
    ("about 20", "19.6"),
    ("about 3,000", "2981"),
    ("2,000 and 2\u202f000", "2000"),
    ("$2{,}000$", "2000"),
    ("16 of them", "16"),
    ("an 8×8 or 8x8 map", "8"),
    ("$10^{-6}$, $10^{-6}$ and 10⁻⁶", "1e-6"),
    (r"$3 \cdot 10^{5}$ and 3e5", "300000"),
    ("a lesson of 16px", "16"),
]
DIFFER = [
    ("0.74", "0.7461", "0.74"),
    ("0.741", "0.74", "0.741"),
    ("74 %", "0.77", "74 %"),
    ("73", "74", "73"),
    ("0.07", "0.7", "0.07"),
    ("about 20", "21", "20"),
    ("3,000", "2981", "3,000"),
    ("about 3,000", "2900", "3,000"),
    ("1 %", "2", "1 %"),
    ("0.0", "0.2", "0.0"),
    ("3e5", "3", "3e5"),
    ("$x = 17$", "16", "17"),
    ("the 2000 draws", "3", "2000"),
    ("in 2000 draws", "3", "2000"),
    ("`d=64`", "3", "64"),
    ("a < 7 and 8 > b", "7", "8"),
    ("(17 of them, 2015)", "3", "17"),
]


@pytest.mark.parametrize("text, known", AGREE)
def test_a_number_that_is_known_passes(text, known):
    assert problems(text, known) == []


@pytest.mark.parametrize("text, known, named", DIFFER)
def test_a_number_that_is_not_known_is_found(text, known, named):
    (problem,) = problems(text, known)
    assert problem.startswith(f"{named} is in no neighbouring cell, in ")


STRUCTURE = """\
# 06 · Why the square root

3 min. Needs: lessons 05, 07 and 12, Python 3.11. About 25 minutes; ten of them yours. 0, 1 or 2.

## 3. A walk of two steps

### 3.2 A 2-D plane

1. GPT-3, x64, W_16 and float32 are names, and so is head 4. See section 5.1 and equation (7).
12. On 12 June 2017, or 2017-06-12, at 10:30, version 1.26.4 came out (Vaswani et al. 2017, NeurIPS).

Since 2014, the 2017 paper, and Bahdanau et al. 2015; arXiv:1706.03762v5 is the 4th [^3] [12].
<img width="640" alt="x"> <!-- 17 --> [lesson 17](17_x.ipynb "the 18th") <https://x.org/99>
$x_{17}^{18} + y_3^4 \\\\[5pt]$, $2^{10}$, a `d = 512` and 100 %.

## Exercise 4 · a walk

7 minutes, difficulty 3 of 3.

## Sources

- J. Doe 1994, Some Journal 9(8), 1735 to 1780. doi:10.1162/neco.1997.9.8.1735"""


def test_numbers_that_name_or_order_are_free():
    assert problems(STRUCTURE, code="d = 512") == []


@pytest.mark.parametrize(
    "text",
    [
        "3 × 4 = 12",
        r"$3 \times 4 = 12$",
        r"$3 \cdot 4 + 5 = 17$ and 100 % − 74 % = 26 %",
        "16 * 64 is 1,024",
        r"$\frac{3}{4} = 0.75$ and $\sqrt{64} = 8$",
        "9/3 makes 3",
        r"2/3 is about 67 %, $2^{10} = 1024$",
    ],
)
def test_arithmetic_that_comes_out_is_free(text):
    assert problems(text) == []


@pytest.mark.parametrize(
    "text, words",
    [
        ("3 × 4 = 13", "3 × 4 is 12, not 13"),
        (r"$\frac{3}{4} = 0.9$", "is 0.75, not 0.9"),
        ("100 % − 74 % is 27 %", "is 26, not 27 %"),
    ],
)
def test_arithmetic_that_does_not_come_out_is_found(text, words):
    (problem,) = problems(text)
    assert words in problem


def test_an_equation_with_letters_is_no_arithmetic():
    text = r"$6 \sqrt{d} + 3 \cdot 4 = 12 d$ and $x + 3 \cdot 4 = 14$"
    assert problems(text, "3", "4", "6", "12", "14") == []


def test_a_root_that_the_sentence_speaks_of():
    text = r"A score lies $\sqrt{d}$ from zero: 2 at width 4, about 23 at width 512."
    assert problems(text, "4", "512") == []
    assert len(problems(text.replace("23", "24"), "4", "512")) == 1
    assert len(problems("About 23. Its root is at width 512.", "512")) == 1


def test_the_finding_quotes_the_sentence():
    (problem,) = problems("First one. The mean is\n3.5 at 17 nodes, no more. Last one.", "3.5")
    assert "'The mean is 3.5 at 17 nodes, no more.'" in problem


def test_the_allow_list():
    assert problems("At 17 or 99.5 %.", allowed=["17", "99.5%"]) == []
    (problem,) = problems("At 17.", "17", allowed=["17"])
    assert "'17', which needs no leave" in problem
    seven = [str(number) for number in range(11, 18)]
    found = problems(" ".join(seven), allowed=seven)
    assert found == ["attn.numbers has 7 entries, at most 6 are allowed"]


def test_what_a_code_cell_knows(sample):
    cell = sample.code(
        "# 17\n%matplotlib inline\nx = [2_500, -0.125, True]\ntext = f'{x}: 18'",
        sample.stream("mean 3.500, share 12.5 %\n"),
        sample.figure("A map with a maximum of 41."),
    )
    known = code_numbers(cell)
    assert known == set(map(Decimal, ["2500", "0.125", "18", "3.500", "12.5", "0.125", "41"]))


def test_a_table_in_html_is_read_without_its_tags(sample):
    table = sample.figure("A table.")
    table.data = {"text/html": "<style>p{margin:9px}</style><td title='0.5'>0.25</td>"}
    assert code_numbers(sample.code("x", table)) == {Decimal("0.25")}


def far_apart(sample, gap, heading):
    """A number is printed; `gap` cells further, below a heading, the prose names it."""
    between = [sample.markdown("No number here.") for _ in range(gap - 1)]
    last = sample.markdown(f"{heading}It was 6.5.")
    for count, cell in enumerate([*between, last]):
        cell.id = f"between-{count}"
    printing = sample.code("print(x)", sample.stream("6.5\n"))
    printing.id = "printing"
    sample.cells = [sample.cells[0], printing, *between, last]
    return list(prose_numbers(sample.lesson()))


@pytest.mark.parametrize(
    "gap, heading, findings",
    [(3, "## Next\n\n", 0), (4, "## Next\n\n", 1), (9, "### Below\n\n", 0), (9, "", 0)],
)
def test_a_neighbour_is_near_or_in_the_section(sample, gap, heading, findings):
    assert len(far_apart(sample, gap, heading)) == findings


def test_a_finding_names_its_cell(sample):
    sample.said.source = "The mean is 3.6."
    (finding,) = prose_numbers(sample.lesson())
    assert finding.startswith("cell said: 3.6 is in no neighbouring cell")
