"""lesson_map: the lessons of the README and no others, each on one that it needs, nothing clipped."""

import re
from pathlib import Path

import pytest
from matplotlib.colors import to_hex

from attnlib.plots import lesson_map
from attnlib.plots.course_map import LESSONS, PARTS, lines_of_need
from attnlib.plots.style import MARKERS, PALETTE

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
BY_NUMBER = {lesson.number: lesson for lesson in LESSONS}


def readme_rows():
    """Number, title, part and star of each row of the README's table of lessons."""
    part = ""
    for row in re.findall(r"(?m)^\| (.*?) \|", README):
        heading = re.fullmatch(r"\*\*([IV]+) (.+)\*\*", row)
        found = re.fullmatch(r"(\d\d) (★ )?\[?(.+?)(?:\]\(.*\))?", row)
        if heading:
            part = heading[1]
            assert PARTS[part] == heading[2]
        elif found:
            yield found[1], found[3], part, bool(found[2])


def test_the_lessons_are_those_of_the_readme():
    ours = [(lesson.number, lesson.title, lesson.part, lesson.short) for lesson in LESSONS]
    # 00 stands before the parts, and is where the short path starts.
    assert ours == [(number, title, part, short or number == "00")
                    for number, title, part, short in readme_rows()]


@pytest.mark.parametrize("lesson", LESSONS[1:], ids=lambda lesson: lesson.number)
def test_what_a_lesson_needs_comes_before_it(lesson):
    assert lesson.needs and all(number in BY_NUMBER and number < lesson.number for number in lesson.needs)


def test_the_short_path_needs_nothing_beside_it():
    short = [lesson for lesson in LESSONS if lesson.short]
    assert [lesson.needs for lesson in short[1:]] == [(before.number,) for before in short[:-1]]


@pytest.fixture(scope="module")
def figure():
    return lesson_map()


def test_every_lesson_has_its_part_s_mark_and_its_words_beside_it(figure):
    (ax,) = figure.axes
    marks = {tuple(line.get_xydata()[0]): line for line in ax.lines if line.get_marker() in MARKERS}
    words = {text.get_text()[:2]: text for text in ax.texts if text.get_text()[:2].isdecimal()}
    assert set(words) == set(BY_NUMBER)
    for number, text in words.items():
        lesson = BY_NUMBER[number]
        assert lesson.title in text.get_text()
        assert all(f"(and {other})" in text.get_text() for other in lesson.needs[1:])
        x, y = text.xy
        mark = next(m for (at_x, at_y), m in marks.items() if at_y == y and 0 < x - at_x < 20)
        if lesson.part:
            index = list(PARTS).index(lesson.part)
            assert (to_hex(mark.get_color()), mark.get_marker()) == (PALETTE[index], MARKERS[index])


def test_the_trunk_stands_upright_in_order_and_branches_start_at_what_they_need(figure):
    (ax,) = figure.axes
    at = {text.get_text()[:2]: text.xy for text in ax.texts if text.get_text()[:2].isdecimal()}
    short = [at[lesson.number] for lesson in LESSONS if lesson.short]
    assert len({x for x, _ in short}) == 1 and [y for _, y in short] == sorted(y for _, y in short)
    branches = [line.get_xydata() for line in ax.lines if len(line.get_xydata()) == 4]
    ends = {(tuple(line[0])[1], line[-1][0] + 14, line[-1][1]) for line in branches}
    hanging = [lesson for lesson in LESSONS if not lesson.short]
    assert ends == {(at[lesson.needs[0]][1], *at[lesson.number]) for lesson in hanging}


def test_it_can_be_read(figure, assert_readable):
    assert_readable(figure)
    assert figure.get_figheight() <= 5.7               # inches: a slide has no more room below its title


def test_no_line_crosses_words(figure):
    (ax,) = figure.axes
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    for line in ax.lines:
        points = ax.transData.transform(line.get_xydata())
        for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
            for box in boxes:
                apart_x = max(x0, x1) <= box.x0 or min(x0, x1) >= box.x1
                assert apart_x or max(y0, y1) <= box.y0 or min(y0, y1) >= box.y1


def test_the_map_in_words_names_every_lesson():
    assert set(re.findall(r"\d\d", lines_of_need())) == set(BY_NUMBER)
    assert "on 09 hang 10, 20, 21;" in lines_of_need()
