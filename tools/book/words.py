"""What the book's search takes for a word, in English and in Chinese."""

import re

from sphinx.search.en import SearchEnglish

LONGEST = 6  # characters of a Chinese term that is looked for whole
CHINESE = re.compile("[\u4e00-\u9fff]+")
# Two letters would be too few: ReLU is one word, and its parts would be marked in every "are".
PART = re.compile("[A-Z][a-z]{2,}|[A-Z]{3,}(?![a-z])|[a-z]{3,}")

# The same of what a reader asks for. Here a joined name is its parts alone, since all words must be found.
SPLITTER = f"""
const partsOf = (word) => {{
  const parts = word.match(/{PART.pattern}/g) || [];
  return parts.join("") === word ? parts : [word];
}};
var splitQuery = (query) => (
  query.match(/[\u4e00-\u9fff]{{1,{LONGEST}}}|(?:(?![\u4e00-\u9fff])[\\p{{L}}\\p{{N}}_])+/gu) || []
).flatMap(partsOf);
"""


class EnglishAndChinese(SearchEnglish):
    """English words, joined names and their parts, and every stretch of one to six Chinese characters.

    Who writes "flash attention" means FlashAttention, and the other way round.

    Chinese is written without spaces, and a dictionary that cuts it knows the field's terms badly. The
    Chinese of the book is terms and examples, so there are few stretches, and whatever a reader types
    is among them.
    """

    js_splitter_code = SPLITTER

    def split(self, text):
        words = super().split(CHINESE.sub(" ", text))
        return words + [part for word in words for part in parts(word)] + [
            run[start : start + length]
            for run in CHINESE.findall(text)
            for length in range(1, LONGEST + 1)
            for start in range(len(run) - length + 1)
        ]

    def word_filter(self, word):
        return bool(CHINESE.match(word)) or super().word_filter(word)


def parts(word):
    """Those of a name that joins several words, such as LayerNorm; none of any other word."""
    found = PART.findall(word)
    return found if len(found) > 1 and "".join(found) == word else []
