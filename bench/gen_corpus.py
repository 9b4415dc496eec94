#!/usr/bin/env python3
"""Make a corpus of English and Korean Markdown files, always the same for the same arguments.

    gen_corpus.py OUT --files 5000 [--queries queries.json]

    -> OUT/d000/kitchen-notes-00000.md    about 450 words: a title, `sections` headings with `paras` paragraphs each
       OUT/d000/회의-기록-00001.md         one of them holds the file's own number ("PRJ-3F2A01-00001") and an amount

Of ten files five are English, four Korean and one is mixed. File i depends on the seed and i alone, so a small corpus is
the beginning of a large one. Queries are `{q, lang, kind, expect}`; `expect` is the one file that holds a number, or null.
The sentences mean nothing: this is for measuring speed, and whether words are found at all, not the quality of answers.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

FILES_PER_FOLDER = 100
WORDS_PER_PARAGRAPH = 50
LANGUAGES = ("en", "ko", "en", "ko", "en", "mixed", "en", "ko", "en", "ko")  # of file i, by i mod 10


# topic: (nouns, verbs, circumstances)
EN_TOPICS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "storage": (
        [
            "database",
            "index",
            "replica",
            "partition",
            "snapshot",
            "write-ahead log",
            "backup",
            "schema",
            "cache",
            "query planner",
        ],
        ["compacts", "rebuilds", "verifies", "migrates", "truncates", "restores", "profiles", "shards"],
        ["overnight", "before each release", "when the disk fills", "during low traffic", "after a failed checksum"],
    ),
    "travel": (
        [
            "itinerary",
            "boarding pass",
            "hotel booking",
            "rail ticket",
            "visa form",
            "travel insurance",
            "luggage tag",
            "transfer desk",
        ],
        ["confirms", "changes", "cancels", "reimburses", "upgrades", "extends", "documents"],
        ["two weeks in advance", "at the counter", "through the agency", "once the manager approves", "on arrival"],
    ),
    "kitchen": (
        [
            "sourdough starter",
            "espresso grinder",
            "pour-over kettle",
            "cast iron pan",
            "pickling jar",
            "rice cooker",
            "bread dough",
            "stock pot",
        ],
        ["rests", "cools", "ferments", "simmers", "proofs", "steeps", "browns"],
        [
            "for forty minutes",
            "in a warm corner",
            "under a damp cloth",
            "at room temperature",
            "until it doubles in size",
        ],
    ),
    "finance": (
        [
            "invoice",
            "purchase order",
            "quarterly budget",
            "expense claim",
            "tax return",
            "payroll run",
            "audit trail",
            "credit note",
        ],
        ["settles", "approves", "rejects", "reconciles", "forecasts", "archives", "discloses"],
        [
            "by the end of the month",
            "within thirty days",
            "against the ledger",
            "for the external auditor",
            "after the board meeting",
        ],
    ),
    "garden": (
        [
            "tomato seedling",
            "compost heap",
            "rain barrel",
            "greenhouse",
            "apple tree",
            "herb bed",
            "raised planter",
            "drip line",
        ],
        ["thrives", "wilts", "flowers", "dries out", "recovers", "freezes", "spreads"],
        [
            "in early spring",
            "without direct sun",
            "after the first frost",
            "next to the south wall",
            "when watered at dawn",
        ],
    ),
    "support": (
        [
            "customer ticket",
            "refund request",
            "escalation",
            "response template",
            "chat transcript",
            "knowledge base article",
            "satisfaction survey",
        ],
        ["describes", "closes", "reopens", "duplicates", "prioritizes", "translates", "summarizes"],
        [
            "within four business hours",
            "for the enterprise plan",
            "with a screenshot attached",
            "in the weekly digest",
            "after the outage",
        ],
    ),
    "hardware": (
        [
            "fan controller",
            "power supply",
            "network card",
            "thermal sensor",
            "storage shelf",
            "firmware image",
            "serial console",
            "rack rail",
        ],
        ["throttles", "reboots", "overheats", "reports", "negotiates", "fails over", "recalibrates"],
        [
            "above seventy degrees",
            "after the firmware update",
            "on the second unit",
            "under sustained load",
            "in maintenance mode",
        ],
    ),
    "people": (
        [
            "interview panel",
            "onboarding checklist",
            "annual review",
            "parental leave policy",
            "training budget",
            "remote work agreement",
            "mentor",
        ],
        ["covers", "replaces", "introduces", "postpones", "clarifies", "evaluates", "supports"],
        [
            "for new hires",
            "in the first ninety days",
            "with written consent",
            "across all offices",
            "at the end of the probation period",
        ],
    ),
}
EN_NAMES = [
    "Amelia Hart",
    "Ben Okafor",
    "Carla Jimenez",
    "Dmitri Volkov",
    "Elena Rossi",
    "Farid Haddad",
    "Grace Lin",
    "Hugo Martens",
    "Ines Duarte",
    "Jonas Weber",
]
EN_PLACES = ["Rotterdam", "Osaka", "Lisbon", "Denver", "Tallinn", "Busan", "Leeds", "Cape Town", "Seoul", "Montreal"]
EN_FILL = [
    "the team decided to keep the current plan",
    "nobody objected to the proposal",
    "we still need a second opinion",
    "the change was smaller than expected",
    "this has to be written down for later",
    "the numbers looked better than last year",
    "a follow-up is scheduled",
    "most of the delay came from waiting for approval",
    "the old procedure no longer applies",
    "details are in the appendix",
]
EN_SENTENCES = [
    "The {n} {v} {w}.",
    "When the {n} {v} {w}, {f}.",
    "{p} noted that the {n} {v} {w}, and {f}.",
    "In {c}, the {n} {v} {w}; the {n2} does not.",
    "According to {p}, {f} because the {n} {v} {w}.",
    "On {d} the {n} was checked in {c} and {f}.",
    "It took {k} days until the {n2} was ready, although the {n} {v} {w}.",
]

# topic: (nouns, predicates, circumstances)
KO_TOPICS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "회의": (
        ["회의록", "안건", "의사결정 사항", "참석자 명단", "발표 자료", "후속 조치", "주간 회의", "회의실 예약"],
        ["정리했다", "공유했다", "다음 주로 미뤘다", "다시 검토하기로 했다", "만장일치로 승인했다", "메일로 전달했다"],
        ["오전 열 시에", "팀장 주관으로", "온라인으로", "지난 분기와 비교하여", "담당자를 지정한 뒤"],
    ),
    "예산": (
        ["예산안", "지출 결의서", "세금계산서", "견적서", "법인카드 내역", "분기 실적", "구매 요청서", "정산 보고서"],
        ["제출했다", "반려했다", "확정했다", "재무팀에 넘겼다", "꼼꼼하게 대조했다", "삭감하기로 했다"],
        ["월말까지", "감사를 앞두고", "부서별로 나누어", "환율 변동을 반영하여", "전년 대비 십 퍼센트 줄여"],
    ),
    "여행": (
        ["항공권", "숙소 예약", "기차표", "여행자 보험", "출장 일정", "환전 금액", "여권 사본", "공항 리무진"],
        ["미리 예약했다", "취소했다", "변경했다", "출발 전에 확인했다", "한 장으로 정리했다", "동행에게 보냈다"],
        ["출발 이 주 전에", "성수기를 피해서", "부산역 근처에서", "제주도에 도착하자마자", "여행사를 통하지 않고"],
    ),
    "요리": (
        ["김치찌개", "밀가루 반죽", "멸치 육수", "간장 양념", "된장국", "현미밥", "고추장 소스", "계란말이"],
        [
            "약한 불에 끓였다",
            "한 시간 동안 숙성시켰다",
            "냉장고에 보관했다",
            "체에 걸렀다",
            "간을 맞추었다",
            "접시에 담아냈다",
        ],
        ["뚜껑을 덮고", "센 불로 시작해서", "물을 조금씩 부어 가며", "전날 저녁에", "할머니의 방식대로"],
    ),
    "개발": (
        [
            "검색 색인",
            "배포 절차",
            "데이터베이스 백업",
            "오류 기록",
            "인증 서버",
            "캐시 설정",
            "단위 시험",
            "접근 권한",
        ],
        ["점검했다", "다시 만들었다", "자동화했다", "복구했다", "문서로 남겼다", "두 배로 늘렸다"],
        ["새벽 점검 시간에", "장애가 난 직후에", "운영 환경에서", "새 버전을 내기 전에", "트래픽이 적은 시간에"],
    ),
    "건강": (
        ["건강검진 결과", "혈압 기록", "운동 계획", "처방전", "예방 접종", "수면 시간", "식단표", "물리치료 일정"],
        [
            "의사와 상담했다",
            "매일 기록했다",
            "보험사에 청구했다",
            "다음 달로 옮겼다",
            "표로 정리했다",
            "가족에게 알렸다",
        ],
        ["공복 상태에서", "병원 안내에 따라", "무리하지 않는 범위에서", "아침 일찍", "삼 개월마다"],
    ),
    "학교": (
        [
            "수업 계획서",
            "과제 제출 기한",
            "시험 범위",
            "장학금 신청서",
            "성적 정정 기간",
            "도서관 자리",
            "졸업 논문",
            "동아리 모임",
        ],
        [
            "게시판에 올렸다",
            "조교에게 문의했다",
            "한 주 연장했다",
            "학생들에게 안내했다",
            "교수님께 확인받았다",
            "정해진 양식으로 냈다",
        ],
        ["개강 첫 주에", "중간고사가 끝난 뒤", "학과 사무실에서", "방학 동안", "마감 하루 전에"],
    ),
    "주거": (
        [
            "전세 계약서",
            "관리비 고지서",
            "이사 견적",
            "보일러 점검",
            "등기부 등본",
            "주차 등록",
            "누수 공사",
            "인터넷 설치",
        ],
        [
            "집주인과 합의했다",
            "자동이체로 바꾸었다",
            "세 군데에 문의했다",
            "사진으로 남겼다",
            "구청에 신고했다",
            "주말로 잡았다",
        ],
        ["계약 만료 두 달 전에", "관리사무소를 통해", "장마가 오기 전에", "확정일자를 받으면서", "이웃과 상의하여"],
    ),
}
KO_NAMES = ["김민수", "이서연", "박지훈", "최유진", "정하늘", "강도현", "조은별", "윤재호", "임수빈", "한가람"]
KO_PLACES = ["서울", "부산", "대전", "광주", "인천", "제주", "수원", "춘천", "전주", "포항"]
KO_FILL = [
    "특별한 반대 의견은 없었다",
    "아직 한 번 더 확인해야 한다",
    "생각보다 변화가 작았다",
    "작년보다 수치가 좋아졌다",
    "대부분의 지연은 승인 대기 때문이었다",
    "기존 절차는 더 이상 쓰지 않는다",
    "자세한 내용은 부록에 적어 두었다",
    "다음 모임에서 이어서 논의한다",
]
KO_SENTENCES = [
    "{p} 님이 {w} {n}{obj} {v}.",
    "{c}에서 {n}{obj} {w} {v}.",
    "{w} {n}{obj} {v}. 다만 {f}.",
    "{d}에 {p} 님과 함께 {n}{obj} {v}.",
    "{n}{top} {w} 처리하는 것이 원칙이지만, 이번에는 {n2}{top2} 예외로 두었다.",
    "{n2}{sub} 늦어져서 {n}{obj} {w} {v}.",
    "{p} 님에 따르면 {f}. 그래서 {n}{obj} {v}.",
]

QUERIES = [  # text, language, kind
    ("who approves the quarterly budget after the board meeting", "en", "topic"),
    ("espresso grinder cools at room temperature", "en", "topic"),
    ("restore a database snapshot after a failed checksum", "en", "topic"),
    ("parental leave policy for new hires", "en", "topic"),
    ("firmware update power supply overheats", "en", "topic"),
    ("refund request with a screenshot attached", "en", "topic"),
    ("apple tree after the first frost", "en", "topic"),
    ("cancel the hotel booking through the agency", "en", "topic"),
    ("audit", "en", "short"),
    ("payroll", "en", "short"),
    ("예산안을 삭감하기로 한 이유", "ko", "topic"),
    ("부산역 근처에서 숙소 예약을 변경했다", "ko", "topic"),
    ("데이터베이스 백업을 새벽에 복구", "ko", "topic"),
    ("전세 계약서 확정일자", "ko", "topic"),
    ("건강검진 결과 의사 상담", "ko", "topic"),
    ("과제 제출 기한 연장", "ko", "topic"),
    ("회의", "ko", "short"),
    ("예산", "ko", "short"),
    ("여권", "ko", "short"),
    ("육수", "ko", "short"),
    ("회의록", "ko", "particle"),
    ("세금계산서", "ko", "particle"),
    ("보일러", "ko", "particle"),
    ("장학금", "ko", "particle"),
]


@dataclass(frozen=True, slots=True)
class Query:
    q: str
    lang: str
    kind: str  # topic | short | particle | code
    expect: str | None = None  # path of the only right file, relative to the corpus


def english(r: random.Random, topic: str) -> str:
    nouns, verbs, circumstances = EN_TOPICS[topic]
    a, b = r.sample(nouns, 2)
    sentence = r.choice(EN_SENTENCES).format(
        n=a,
        n2=b,
        v=r.choice(verbs),
        w=r.choice(circumstances),
        f=r.choice(EN_FILL),
        p=r.choice(EN_NAMES),
        c=r.choice(EN_PLACES),
        d="{}-{:02d}-{:02d}".format(*_date(r)),
        k=r.randint(2, 90),
    )
    return sentence[0].upper() + sentence[1:]


def korean(r: random.Random, topic: str) -> str:
    nouns, predicates, circumstances = KO_TOPICS[topic]
    a, b = r.sample(nouns, 2)
    return r.choice(KO_SENTENCES).format(
        n=a,
        n2=b,
        v=r.choice(predicates),
        w=r.choice(circumstances),
        f=r.choice(KO_FILL),
        p=r.choice(KO_NAMES),
        c=r.choice(KO_PLACES),
        d="{}년 {}월 {}일".format(*_date(r)),
        obj=_particle(a, "을", "를"),
        top=_particle(a, "은", "는"),
        top2=_particle(b, "은", "는"),
        sub=_particle(b, "이", "가"),
    )


def _date(r: random.Random) -> tuple[int, int, int]:
    return r.randint(2019, 2026), r.randint(1, 12), r.randint(1, 28)


def _particle(word: str, after_consonant: str, after_vowel: str) -> str:
    """Choose by the last syllable: Hangul syllables are numbered so that every 28th ends in a vowel."""
    code = ord(word[-1])
    return after_consonant if 0xAC00 <= code <= 0xD7A3 and (code - 0xAC00) % 28 else after_vowel


def number_of(seed: int, i: int) -> str:
    """Return the number that only file `i` holds."""
    return f"PRJ-{random.Random(f'{seed}/code/{i}').getrandbits(24):06X}-{i:05d}"


def document(i: int, *, seed: int = 42, sections: int = 3, paras: int = 3) -> tuple[str, str, str]:
    """Return (name, text, language) of file `i`."""
    r = random.Random(f"{seed}/doc/{i}")
    language = LANGUAGES[i % 10]
    topics = r.choice(sorted(EN_TOPICS)), r.choice(sorted(KO_TOPICS))
    amount = r.randint(1000, 999999)
    english_name = language == "en"
    name = f"{topics[0]}-notes-{i:05d}.md" if english_name else f"{topics[1]}-기록-{i:05d}.md"
    parts = [f"# {topics[0].capitalize()} notes {i}\n" if english_name else f"# {topics[1]} 기록 {i}\n"]
    with_fact = r.randrange(sections)
    for section in range(sections):
        in_korean = language == "ko" or (language == "mixed" and section % 2 == 1)
        fact = ""
        if section == with_fact:
            number = number_of(seed, i)
            fact = f"The reference number is {number} and the amount is {amount} euros."
            if in_korean:
                fact = f"관리 번호는 {number}이며 금액은 {amount}원이다."
        parts.append(_section(r, topics[in_korean], section, in_korean=in_korean, paras=paras, fact=fact))
    return name, "".join(parts), language


def _section(r: random.Random, topic: str, number: int, *, in_korean: bool, paras: int, fact: str) -> str:
    table, sentence = (KO_TOPICS, korean) if in_korean else (EN_TOPICS, english)
    if number and r.random() < 0.35:
        topic = r.choice(sorted(table))
    heading = r.choice(table[topic][0])
    parts = [f"\n## {heading if in_korean else heading.capitalize()} {number + 1}\n"]
    for paragraph in range(paras):
        sentences: list[str] = []
        while sum(len(one.split()) for one in sentences) < WORDS_PER_PARAGRAPH:
            sentences.append(sentence(r, topic))
        if fact and paragraph == paras // 2:
            sentences.insert(len(sentences) // 2, fact)
        parts.append("\n" + " ".join(sentences) + "\n")
    return "".join(parts)


def documents(files: int, *, seed: int = 42, sections: int = 3, paras: int = 3) -> Iterator[tuple[str, str, str]]:
    """Yield (path relative to the corpus, text, language) of each file."""
    for i in range(files):
        name, text, language = document(i, seed=seed, sections=sections, paras=paras)
        yield f"d{i // FILES_PER_FOLDER:03d}/{name}", text, language


def write_corpus(
    out: Path, files: int, *, seed: int = 42, sections: int = 3, paras: int = 3
) -> tuple[int, list[Query]]:
    """Write the corpus into `out`; return its bytes, and queries: the fixed ones and twenty for single files."""
    total, queries = 0, [Query(*one) for one in QUERIES]
    step = max(1, files // 20)
    for i, (path, text, language) in enumerate(documents(files, seed=seed, sections=sections, paras=paras)):
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        total += (out / path).write_bytes(text.encode())
        if i % step == 0:
            queries.append(Query(number_of(seed, i), language, "code", path))
    return total, queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--files", type=int, required=True)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--sections", type=int, default=3)
    parser.add_argument("--paras", type=int, default=3)
    parser.add_argument("--queries", type=Path, help="also write the queries here, as JSON")
    args = parser.parse_args()
    total, queries = write_corpus(args.out, args.files, seed=args.seed, sections=args.sections, paras=args.paras)
    if args.queries:
        data = json.dumps([asdict(query) for query in queries], ensure_ascii=False, indent=1)
        args.queries.write_text(data, encoding="utf-8")
    print(f"{args.files} files, {total / 1e6:.1f} MB in {args.out}")


if __name__ == "__main__":
    main()
