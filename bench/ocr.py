"""Measure OCR: wrong characters, right word spaces and time, beside plain Tesseract (`eng+kor`, --psm 6).

    python bench/ocr.py [--guide install.ko.pdf] [--errors]

Pages of ordinary Korean prose are drawn at 200 dpi in three fonts and three sizes. `--guide` takes a PDF (say Debian's
Korean installation guide, package installation-guide-amd64) whose pages are drawn, read and compared with its own text.
Needs fonts-nanum and fonts-noto-cjk. Floors: .015 wrong and .97 of the spaces right on prose, .05 wrong on the guide.
"""

from __future__ import annotations

import argparse
import sys
import time
import unicodedata
from collections.abc import Iterator
from itertools import accumulate
from statistics import mean
from typing import Any

import numpy
import pypdfium2
from PIL import Image, ImageDraw, ImageFont

from seoga import ocr

FONTS = {
    "NanumGothic": ("/usr/share/fonts/truetype/nanum/NanumGothic.ttf", 0),
    "NanumMyeongjo": ("/usr/share/fonts/truetype/nanum/NanumMyeongjo.ttf", 0),
    "Noto Sans CJK": ("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc", 1),
}
SIZES = (10, 11, 12)  # points
DPI = 200
GUIDE_PAGES = (12, 20, 30, 40, 47, 62, 70, 85)  # counted from 0
PROSE = """\
이 문서는 데이터베이스 서버를 설치하고 운영하는 방법을 다룬다. 설치하기 전에 운영체제의 버전을 확인하고, 메모리가 \
적어도 16GB, 디스크 여유 공간이 200GB 이상인지 살펴본다. Linux 커널은 5.10 이상을 권장하며, Windows에서는 WSL 2를 \
쓴다. 네트워크 설정이 잘못되어 있으면 서버가 시작되더라도 클라이언트가 접속하지 못하므로, 방화벽에서 5432번 포트를 \
열어 두어야 한다.
백업은 하루에 한 번, 새벽 2시 30분에 자동으로 실행된다. 전체 백업은 매주 일요일에 만들고 나머지 요일에는 달라진 \
부분만 저장한다. 보관 기간은 기본값이 30일이지만, retention_days 값을 고치면 늘리거나 줄일 수 있다. 복구 시험을 \
하지 않은 백업은 없는 것과 같다는 말을 잊지 말자. 실제로 2023년 조사에서는 응답자 412명 가운데 29.6%가 “복구에 \
실패한 적이 있다”고 대답했다.
성능이 떨어졌다고 느껴지면 먼저 느린 질의를 찾는다. 로그 파일에서 1초 넘게 걸린 질의를 골라 실행 계획을 읽어 보면 \
대개 원인이 드러난다. 인덱스가 빠져 있거나, 통계 정보가 오래되었거나, 한꺼번에 너무 많은 행을 가져오는 경우가 \
흔하다. 캐시 크기를 무작정 키우는 것은 좋은 해결책이 아니다. 왜냐하면 메모리가 모자라면 오히려 열 배쯤 느려지기 \
때문이다.
사용자 계정은 필요한 만큼만 만든다. 관리자 권한은 두 명에게만 주고, 비밀번호는 12자 이상으로 하며 90일마다 바꾼다. \
퇴사한 직원의 계정은 그날 바로 없앤다. 접속 기록은 1년 동안 보관하고, 개인정보가 담긴 열은 AES-256 방식으로 \
암호화한다. 감사 결과는 분기마다 보안팀에 제출해야 하며, 위반 사항이 발견되면 3일 안에 조치 계획을 세운다.
끝으로, 문제가 생기면 혼자 고민하지 말고 도움을 청하자. 사내 게시판에는 지금까지 쌓인 질문과 답변이 1,850건 넘게 \
있으며, 대부분의 증상은 그곳에서 이미 다루었다. 그래도 풀리지 않으면 오류 메시지와 함께 버전, 설정 파일, 재현 \
순서를 적어 보낸다. 담당자는 박물관 별관 3층(내선 0142)에 있고, 메일 주소는 help@example.org이다."""


def drawn(text: str, font: str, points: int) -> Image.Image:
    """Draw paragraphs on an A4 page; lines are broken between words."""
    size = round(points * DPI / 72)
    face = ImageFont.truetype(FONTS[font][0], size, index=FONTS[font][1])
    image = Image.new("L", (round(8.27 * DPI), round(11.69 * DPI)), 255)
    pen, y = ImageDraw.Draw(image), DPI
    for paragraph in text.split("\n"):
        lines = [""]
        for word in paragraph.split():
            longer = f"{lines[-1]} {word}".strip()
            lines = [*lines[:-1], longer] if face.getlength(longer) < image.width - 2 * DPI else [*lines, word]
        for line in lines:
            pen.text((DPI, y), line, font=face, fill=0)
            y += round(1.6 * size)
        y += round(0.6 * size)
    return image


def distances(expected: str, found: str) -> Any:
    """Return Levenshtein's table, (len(expected) + 1, len(found) + 1)."""
    codes, steps = numpy.array([ord(char) for char in found]), numpy.arange(len(found) + 1)
    table = numpy.zeros((len(expected) + 1, len(found) + 1), numpy.int32)
    table[0] = steps
    for row, char in enumerate(expected, 1):
        table[row, 0] = row
        table[row, 1:] = numpy.minimum(table[row - 1, :-1] + (codes != ord(char)), table[row - 1, 1:] + 1)
        table[row] = numpy.minimum.accumulate(table[row] - steps) + steps
    return table


def gaps(text: str) -> tuple[str, set[int]]:
    """`ab c` -> `abc`, {2}: a text without its spaces, and where they were."""
    words = text.split()
    return "".join(words), set(accumulate(map(len, words[:-1])))


def judged(expected: str, found: str) -> tuple[float, float, list[str]]:
    """Return the share of wrong characters without spaces, that of right spaces, and the errors as `expected>found`."""
    (expected, wanted), (found, given) = (gaps(unicodedata.normalize("NFC", text)) for text in (expected, found))
    table, row, column = distances(expected, found), len(expected), len(found)
    partner, wrong = dict[int, int](), list[str]()
    while row or column:
        differ = bool(row and column) and expected[row - 1] != found[column - 1]
        if row and column and table[row, column] == table[row - 1, column - 1] + differ:
            wrong += [f"{expected[row - 1]}>{found[column - 1]}"] if differ else []
            partner[row] = column
            row, column = row - 1, column - 1
        elif row and table[row, column] == table[row - 1, column] + 1:
            wrong.append(f"{expected[row - 1]}>")
            partner[row] = column
            row -= 1
        else:
            wrong.append(f">{found[column - 1]}")
            column -= 1
    right = len({partner.get(place) for place in wanted} & given)
    return table[-1, -1] / len(expected), right / max(len(wanted) + len(given) - right, 1), wrong[::-1]


def guide(path: str) -> Iterator[tuple[str, str, Image.Image]]:
    book = pypdfium2.PdfDocument(path)
    for index in GUIDE_PAGES:
        text = book[index].get_textpage().get_text_range().replace("\u2011", "-").replace("\x02", "-")
        yield "guide", text, book[index].render(scale=DPI / 72, grayscale=True).to_pil()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--guide")
    parser.add_argument("--errors", action="store_true", help="list the wrong characters")
    options = parser.parse_args()
    cases = [(font, PROSE, drawn(PROSE, font, points)) for font in FONTS for points in SIZES]
    cases += guide(options.guide) if options.guide else []
    results = dict[str, list[tuple[float, ...]]]()
    for name, text, image in cases:
        began = time.monotonic()
        lines, confidence, _ = ocr.recognise(image, DPI, "eng+kor")
        middle = time.monotonic()
        plain = ocr._text(ocr._run(image, "eng+kor", DPI, 6, middle + 120))
        ratio, before = (middle - began) / (time.monotonic() - middle), judged(text, plain)
        wrong, right, errors = judged(text, "\n".join(line.text for line in lines))
        results.setdefault(name, []).append((wrong, right, before[0], before[1], ratio, confidence))
        print(*errors if options.errors else (), file=sys.stderr)
    print(f"{'':14} wrong  spaces | plain: wrong  spaces | time, of plain's | confidence")
    for name, rows in results.items():
        wrong, right, plain_wrong, plain_right, ratio, confidence = map(mean, zip(*rows, strict=True))
        print(f"{name:14} {wrong:.4f} {right:.3f}  | {plain_wrong:13.4f} {plain_right:.3f}  | {ratio:16.2f}", end=" | ")
        print(round(confidence))
    prose = [row for name, rows in results.items() if name != "guide" for row in rows]
    good = mean(row[0] for row in prose) <= 0.015 and mean(row[1] for row in prose) >= 0.97
    return 0 if good and mean(row[0] for row in results.get("guide", [(0.0,)])) <= 0.05 else 1


if __name__ == "__main__":
    sys.exit(main())
