"""Make the font of the figures: a subset of Noto Sans SC under a name of its own.

    python tools/font_subset.py                       takes the font that the zhplot package carries
    python tools/font_subset.py NotoSansSC.ttf        takes this file; its OFL.txt must lie beside it

Needs fonttools, and zhplot if no file is given. Writes the font and its licence to
attnlib/plots/fonts/. The same source and the same texts give the same bytes.

What goes in: Latin, Greek, the signs that figures use, Chinese punctuation, the 3,755 common
characters of GB 2312 level 1, and every other Chinese character that the notebooks, the package
or the data use. A lesson can therefore add words without a new font; a character that is
missing all the same fails tests/plots/test_font.py, and running this tool again mends it.
"""

import importlib.util
import io
import shutil
import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

ROOT = Path(__file__).resolve().parent.parent
FONTS = ROOT / "attnlib" / "plots" / "fonts"
TARGET = FONTS / "AttnSansSC-Regular.ttf"
FAMILY = "Attn Sans SC"   # the licence reserves the name "Source"; a name of our own is safe

READ = ("notebooks", "attnlib", "data")
TEXT_SUFFIXES = {".ipynb", ".py", ".md", ".txt", ".csv", ".tsv", ".json", ".js", ".html"}

RANGES = (
    (0x0020, 0x007E),   # ASCII
    (0x00A0, 0x017F),   # Latin-1 and Latin Extended-A
    (0x0391, 0x03C9),   # Greek
    (0x2010, 0x2027),   # dashes, quotation marks, dots
    (0x2030, 0x203A),   # per mille, primes
    (0x2190, 0x21D4),   # arrows
    (0x2200, 0x22A5),   # mathematical operators, U+2212 MINUS among them
    (0x25A0, 0x25CF),   # squares, triangles, circles
    (0x3000, 0x3011),   # Chinese punctuation
    (0xFF01, 0xFF5E),   # full-width forms, ，：（） among them
)


def is_chinese(char):
    return "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf"


def common_characters():
    """The 3,755 characters of GB 2312 level 1, which are the common ones, as a set."""
    found = set()
    for row in range(0xB0, 0xD8):
        for cell in range(0xA1, 0xFF):
            try:
                found.add(bytes([row, cell]).decode("gb2312"))
            except UnicodeDecodeError:
                pass                      # the last row of the level is not full
    return found


def used_characters(root=ROOT):
    """Every Chinese character in the project's texts, as a set."""
    found = set()
    for folder in READ:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in TEXT_SUFFIXES and path.is_file():
                found.update(filter(is_chinese, path.read_text(encoding="utf-8")))
    return found


def wanted_characters():
    signs = {chr(code) for low, high in RANGES for code in range(low, high + 1)}
    return signs | common_characters() | used_characters()


def packaged_source():
    spec = importlib.util.find_spec("zhplot")
    if spec is None:
        sys.exit("No font: name a NotoSansSC .ttf file, or install zhplot, which carries one.")
    return Path(spec.origin).parent / "fonts" / "NotoSansSC-Regular.ttf"


def rename(font):
    """Give the font its new name; keep who made it and under which licence (name ids 0, 7-14)."""
    names = font["name"]
    for record in list(names.names):
        if record.nameID >= 16:           # names of variable-font axes
            names.names.remove(record)
    for name_id, text in (
        (1, FAMILY),
        (2, "Regular"),
        (3, "AttnSansSC-Regular"),
        (4, f"{FAMILY} Regular"),
        (6, "AttnSansSC-Regular"),
    ):
        names.setName(text, name_id, 3, 1, 0x409)


def make_subset(source, characters):
    """Return the bytes of the renamed subset of the font at ``source``."""
    options = subset.Options()
    options.hinting = False
    options.layout_features = ["kern"]
    options.name_IDs = ["*"]
    options.notdef_outline = True         # an unknown character shows as a box, not as nothing
    options.drop_tables += ["BASE", "STAT", "gasp", "vhea", "vmtx"]   # no vertical text
    font = TTFont(source, recalcTimestamp=False)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=map(ord, characters))
    subsetter.subset(font)
    rename(font)
    buffer = io.BytesIO()
    font.save(buffer)
    return buffer.getvalue()


def main(arguments):
    source = Path(arguments[0]) if arguments else packaged_source()
    licence = source.with_name("OFL.txt")
    if not licence.is_file():
        sys.exit(f"No licence: {licence} is not there. The font may only travel with its licence.")
    data = make_subset(source, wanted_characters())
    FONTS.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(data)
    shutil.copyfile(licence, FONTS / "OFL.txt")
    print(f"{TARGET.relative_to(ROOT)}: {len(data) / 1e6:.2f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
