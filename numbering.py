"""Count the numbered paragraphs of a document and write their labels: `제1조`, `1.2`, `가.`, `①`.

    List(levels of "%1." and "%1.%2") --> label(0) "1.", label(1) "1.1", label(1) "1.2", label(0) "2.", label(1) "2.1"

Lists that share a definition go on counting together, as in Word. This file reads no documents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_LETTERS = 1000  # beyond, letters (zz, zzz, …) give way to digits

_LETTERS = {
    "lowerLetter": "abcdefghijklmnopqrstuvwxyz",
    "upperLetter": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "ganada": "가나다라마바사아자차카타파하",
    "chosung": "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ",
    "ideographTraditional": "甲乙丙丁戊己庚辛壬癸",
    "ideographZodiac": "子丑寅卯辰巳午未申酉戌亥",
    "aiueo": "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン",
    "russianLower": "абвгдежзиклмнопрстуфхцчшщыэюя",
    "russianUpper": "АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЫЭЮЯ",
}
_ENCLOSED = {  # no further than they go
    "decimalEnclosedCircle": "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳㉑㉒㉓㉔㉕㉖㉗㉘㉙㉚㉛㉜㉝㉞㉟㊱㊲㊳㊴㊵㊶㊷㊸㊹㊺㊻㊼㊽㊾㊿",
    "decimalEnclosedParen": "⑴⑵⑶⑷⑸⑹⑺⑻⑼⑽⑾⑿⒀⒁⒂⒃⒄⒅⒆⒇",
    "decimalEnclosedFullstop": "⒈⒉⒊⒋⒌⒍⒎⒏⒐⒑⒒⒓⒔⒕⒖⒗⒘⒙⒚⒛",
    "ideographEnclosedCircle": "㊀㊁㊂㊃㊄㊅㊆㊇㊈㊉",
}
_ENCLOSED["decimalEnclosedCircleChinese"] = _ENCLOSED["decimalEnclosedCircle"]
_DIGITS = {
    "koreanDigital": "영일이삼사오육칠팔구",
    "koreanDigital2": "零一二三四五六七八九",
    "ideographDigital": "〇一二三四五六七八九",
    "japaneseDigitalTenThousand": "〇一二三四五六七八九",
    "taiwaneseDigital": "○一二三四五六七八九",
    "decimalFullWidth": "０１２３４５６７８９",
    "decimalFullWidth2": "０１２３４５６７８９",
}
_HANJA = ("一二三四五六七八九", "十百千")
_COUNTED = {"koreanCounting": ("일이삼사오육칠팔구", "십백천"), "japaneseCounting": _HANJA, "chineseCounting": _HANJA}
_COUNTED |= {"chineseCountingThousand": _HANJA, "taiwaneseCounting": _HANJA, "taiwaneseCountingThousand": _HANJA}
_NATIVE = (
    ["하나", "둘", "셋", "넷", "다섯", "여섯", "일곱", "여덟", "아홉"],
    ["열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔"],
)
_ORDINAL = {1: "st", 2: "nd", 3: "rd"}
_ROMAN: tuple[tuple[int, str], ...] = (
    (1000, "m"),
    (900, "cm"),
    (500, "d"),
    (400, "cd"),
    (100, "c"),
    (90, "xc"),
    (50, "l"),
    (40, "xl"),
    (10, "x"),
)
_ROMAN += ((9, "ix"), (5, "v"), (4, "iv"), (1, "i"))


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a list: `text` is its label with `%1` for the number of the first level, and so on."""

    text: str
    form: str = "decimal"  # as OOXML names it; "bullet" has no number
    start: int = 1
    restart: int | None = None  # after a paragraph of which level (1: the first) or above; 0: never; None: any above
    decimal: bool = False  # the numbers of all levels are shown as decimals
    gap: str = " "  # between label and text


@dataclass(slots=True)
class List:
    """A list with its levels, from 0. `counts` (level -> number) is shared by all lists of one definition."""

    levels: dict[int, Level]
    counts: dict[int, int]
    restarts: dict[int, int] = field(default_factory=dict)  # level -> where it begins anew when this list begins
    begun: bool = False

    def label(self, depth: int) -> str | None:
        """Count one paragraph; return its label and the gap after it, "" if it has none, None for a bullet."""
        level = self.levels.get(depth)
        if level is None:
            return None
        if not self.begun:
            for at in self.restarts:
                self.counts.pop(at, None)
        self.begun = True
        self.counts[depth] = self.counts[depth] + 1 if depth in self.counts else self._start(depth)
        for at in [at for at in self.counts if at > depth]:
            restart = self.levels[at].restart if at in self.levels else None
            if restart is None or depth < restart:
                del self.counts[at]
        if level.form == "bullet":
            return None
        text = re.sub(r"%([1-9])", lambda match: self._shown(int(match[1]) - 1, level.decimal), level.text).strip()
        return text + level.gap if text else ""

    def _start(self, depth: int) -> int:
        return self.restarts.get(depth, self.levels[depth].start if depth in self.levels else 1)

    def _shown(self, depth: int, decimal: bool) -> str:
        form = self.levels[depth].form if depth in self.levels else "decimal"
        return numeral(self.counts.get(depth, self._start(depth)), "decimal" if decimal and form != "none" else form)


def numeral(number: int, form: str) -> str:
    """`3, "ganada"` -> 다; `4, "upperRoman"` -> IV; a form that is not known gives digits."""
    letters = _LETTERS.get(form, "")
    if letters and 0 < number <= MAX_LETTERS:
        times, at = divmod(number - 1, len(letters))
        return letters[at] * (times + 1)
    if 0 < number <= len(_ENCLOSED.get(form, "")):
        return _ENCLOSED[form][number - 1]
    if form in _DIGITS:
        return str(number).translate(dict(zip(range(48, 58), _DIGITS[form], strict=True)))
    if form in _COUNTED and 0 < number < 10_000:
        return _counted(number, *_COUNTED[form])
    if form == "koreanLegal" and 0 < number < 100:
        tens, ones = divmod(number, 10)
        return (_NATIVE[1][tens - 1] if tens else "") + (_NATIVE[0][ones - 1] if ones else "")
    if form in {"lowerRoman", "upperRoman"} and 0 < number < 4000:
        return _roman(number) if form == "lowerRoman" else _roman(number).upper()
    if form == "ordinal":
        return str(number) + ("th" if number % 100 // 10 == 1 else _ORDINAL.get(number % 10, "th"))
    plain = {"none": "", "decimalZero": f"{number:02}", "numberInDash": f"- {number} -"}
    return plain.get(form, str(number))


def _counted(number: int, digits: str, units: str) -> str:
    """`21` -> 이십일, `110` -> 백십: a one is only said at the end."""
    text = ""
    for power in range(3, -1, -1):
        digit = number // 10**power % 10
        if digit:
            text += (digits[digit - 1] if digit > 1 or power == 0 else "") + (units[power - 1] if power else "")
    return text


def _roman(number: int) -> str:
    text = ""
    for value, letters in _ROMAN:
        times, number = divmod(number, value)
        text += letters * times
    return text
