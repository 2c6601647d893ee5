"""The font of the figures: what it holds, what it is called, and that figures use it."""

import importlib.util
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont
from matplotlib import font_manager
from matplotlib.font_manager import FontProperties

import attnlib.plots
from attnlib.plots.style import FAMILY

ROOT = Path(__file__).resolve().parents[2]
FONTS = Path(attnlib.plots.__file__).parent / "fonts"
FILE = FONTS / "AttnSansSC-Regular.ttf"


@pytest.fixture(scope="module")
def font():
    with TTFont(FILE, lazy=True) as font:
        yield font


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("font_subset", ROOT / "tools" / "font_subset.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_holds_every_chinese_character_of_the_course(font, tool):
    missing = {char for char in tool.used_characters() if ord(char) not in font.getBestCmap()}
    assert not missing, f"run tools/font_subset.py to add {''.join(sorted(missing))}"


def test_used_characters_are_read_from_every_kind_of_text(tmp_path, tool):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "notebooks" / "a.ipynb").write_text("龘 x", encoding="utf-8")
    (tmp_path / "data" / "b.json").write_text("靐，", encoding="utf-8")
    (tmp_path / "data" / "c.png").write_bytes(b"\xff")
    assert tool.used_characters(tmp_path) == {"龘", "靐"}


@pytest.mark.parametrize("text", [
    "我吃了一个苹果，它很甜。我爱你 你爱我", "变压器 模型 变形金刚", "李宁 跑步鞋 球拍 耐克 跑鞋",
    "了解郁达夫 大众文艺", "注意力分数 键的维度 术语（一）：“查询”、《图书》", "ABCxyz 0123456789",
    "\u2212 × ÷ ± ≤ ≥ ≠ ≈ → ← ↑ ↓ √ ∑ ∞ ∈ – — … ‘’ “” é ü ½ ² °", "αβγδεθλμπστφω ΔΣΩ",
])
def test_it_holds_what_lessons_write(font, text):
    assert [char for char in text if ord(char) not in font.getBestCmap()] == []


def test_it_holds_the_common_characters(font, tool):
    common = tool.common_characters()
    assert len(common) == 3755
    assert common <= set(map(chr, font.getBestCmap()))


def test_its_name_is_its_own_and_its_licence_travels_with_it(font):
    names = {record.nameID: str(record) for record in font["name"].names}
    assert names[1] == FAMILY and names[6] == FILE.stem
    assert not any("Source" in names[n] or "Noto" in names[n] for n in (1, 3, 4, 6))
    assert "SIL Open Font License" in names[13] and "Adobe" in names[0]
    licence = (FONTS / "OFL.txt").read_text(encoding="utf-8")
    assert "SIL OPEN FONT LICENSE Version 1.1" in licence and "Reserved Font Name" in licence


def test_it_is_regular_and_small(font):
    assert font["OS/2"].usWeightClass == 400
    assert "fvar" not in font
    assert FILE.stat().st_size < 1.2e6


def test_figures_use_it_first(figure, texts):
    assert all(text.get_fontfamily()[0] == FAMILY for text in texts(figure))
    assert Path(font_manager.findfont(FontProperties(family=FAMILY))) == FILE


def test_a_subset_is_the_same_twice_and_bears_the_name(tool):
    characters = set("ab，我\u2212")
    first = tool.make_subset(FILE, characters)
    assert first == tool.make_subset(FILE, characters)
    assert FAMILY.encode("utf-16-be") in first
    assert len(first) < 10_000
