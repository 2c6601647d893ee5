"""What the book's search takes for a word, in English and in Chinese."""

import re

from sphinx.search.en import SearchEnglish

LONGEST = 6  # characters of a Chinese term that is looked for whole
CHINESE = re.compile("[\u4e00-\u9fff]+")


class EnglishAndChinese(SearchEnglish):
    """English words, and every stretch of one to six characters within Chinese text.

    Chinese is written without spaces, and a dictionary that cuts it knows the field's terms badly. The
    Chinese of the book is terms and examples, so there are few stretches, and whatever a reader types
    is among them.
    """

    def split(self, text):
        return super().split(CHINESE.sub(" ", text)) + [
            run[start : start + length]
            for run in CHINESE.findall(text)
            for length in range(1, LONGEST + 1)
            for start in range(len(run) - length + 1)
        ]

    def word_filter(self, word):
        return bool(CHINESE.match(word)) or super().word_filter(word)
