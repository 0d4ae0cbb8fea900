# ruff: noqa: E501, S311, S608, SIM905 - lines of logs are long, and nobody runs this SQL
"""Texts that no tokenizer was made for, and some it was: a generator for each kind, of 400 to 2,000 characters."""

from __future__ import annotations

import base64
import json
import string
import uuid
from collections.abc import Callable
from random import Random

from places import HELPERS

WORDS = tuple(
    "user index parser buffer value config session render update handler token cache ledger widget socket stream "
    "array node factory client request response build state offset layout merge branch commit thread archive".split()
)


def _of(alphabet: str, low: int, high: int) -> Callable[[Random], str]:
    """Random characters of an alphabet, in one run."""
    return lambda random: "".join(random.choices(alphabet, k=random.randint(low, high)))


def _span(first: int, last: int) -> str:
    return "".join(map(chr, range(first, last + 1)))


def _words(alphabet: str, longest: int = 12) -> Callable[[Random], str]:
    """Random words of an alphabet, spaces between."""

    def make(random: Random) -> str:
        return " ".join("".join(random.choices(alphabet, k=random.randint(1, longest))) for _ in range(90))

    return make


def _lines(line: Callable[[Random], str], count: int = 16) -> Callable[[Random], str]:
    return lambda random: "\n".join(line(random) for _ in range(count))


def _bytes(encode: Callable[[bytes], bytes]) -> Callable[[Random], str]:
    return lambda random: encode(random.randbytes(random.randint(300, 900))).decode()


def _base58(random: Random) -> str:
    return "".join(random.choices("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", k=44))


def _bar(random: Random) -> str:
    done = random.randint(0, 100)
    bar = random.choice("█#=▓■") * (done // 5)
    rate = random.uniform(1, 99)
    return f"\r{done:3d}%|{bar:20}| {done}/100 [00:0{done % 9}<00:0{done % 7}, {rate:.2f}it/s]"


def _table(random: Random) -> str:
    cells = ["".join(random.choices(string.ascii_lowercase, k=8)) for _ in range(4)]
    return "├────────┼────────┼────────┼────────┤\n│" + "│".join(cells) + "│"


def _camel(random: Random) -> str:
    return "".join(word.title() for word in random.choices(WORDS, k=4)) + random.choice("=;(){}.,")


def _minified(random: Random) -> str:
    names = random.choices(string.ascii_letters, k=6)
    a, b, c, d, e, f = names
    number = random.randint(0, 99)
    return f"function {a}({b},{c}){{return {b}&&!{c}?{d}.{e}({b}<<{number}):{f}[{c}]||0}}var {d}={{{e}:!0,{f}:1}};"


def _trace(random: Random) -> str:
    name, other = random.sample(WORDS, 2)
    line = random.randint(1, 900)
    return random.choice(
        [
            f'  File "/usr/lib/python3.11/site-packages/{name}/{other}.py", line {line}, in {name}_{other}\n    raise E',
            f"\tat com.example.{name}.{other.title()}Impl.{name}(Impl.java:{line}) ~[{other}-2.1.{line}.jar:?]",
            f"   {line}: 0x{random.getrandbits(48):012x} - {name}::{other}::h{random.getrandbits(64):016x}",
            f"goroutine {line} [running]:\nmain.{name}(0xc{random.getrandbits(36):09x}, 0x{line:x})",
        ]
    )


def _log(random: Random) -> str:
    stamp = (
        f"2026-0{random.randint(1, 9)}-1{random.randint(0, 9)}T0{random.randint(0, 9)}:{random.randint(10, 59)}:07.123Z"
    )
    address = ".".join(str(random.randint(0, 255)) for _ in range(4))
    return f'{address} - - [{stamp}] "GET /api/{random.choice(WORDS)}?id={random.randint(1, 10**9)} HTTP/1.1" 200 {random.randint(1, 99999)}'


def _url(random: Random) -> str:
    query = "&".join(f"{random.choice(WORDS)}={random.getrandbits(40):x}" for _ in range(3))
    return f"https://www.{random.choice(WORDS)}{random.randint(1, 99)}.example.com/{random.choice(WORDS)}/{query}#s"


def _ansi(random: Random) -> str:
    return f"\x1b[{random.randint(0, 1)};{random.randint(30, 47)}m{random.choice(WORDS)}\x1b[0m \x1b[2K\x1b[1A"


def _zalgo(random: Random) -> str:
    marks = _span(0x300, 0x36F)
    return "".join(letter + "".join(random.choices(marks, k=4)) for letter in random.choice(WORDS) * 15)


def _emoji(random: Random) -> str:
    people = ["👩\u200d👩\u200d👧\u200d👦", "👨🏽\u200d💻", "🏳️\u200d🌈", "🇩🇪", "🇧🇷", "👍🏿", "🤷🏻\u200d♀️", "❤️", "1️⃣"]
    return "".join(random.choices([*people, *_span(0x1F600, 0x1F64F), *_span(0x1F680, 0x1F6C5)], k=150))


def _any_unicode(random: Random) -> str:
    codes = (random.randrange(0x20, 0x110000) for _ in range(500))
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


def _repeated(random: Random) -> str:
    alphabet = string.printable + "éßñ░█─═│·•…→✓漢字あアกअبжΩ한👍\u00a0\u200b\u3000\ufffd"
    return random.choice(alphabet) * random.randint(200, 2_000)


def _repeated_pair(random: Random) -> str:
    return "".join(random.sample(string.printable, random.randint(2, 4))) * random.randint(100, 400)


def _blank_lines(random: Random) -> str:
    return "".join(random.choice([" ", "  ", "\t", "\n", "\r\n", "\n\n", "    ", " " * 40]) for _ in range(300))


def _indented(random: Random) -> str:
    return " " * random.randint(0, 60) + random.choice(["}", "{", "x", "//", "-", "0"])


def _numbers(random: Random) -> str:
    return json.dumps([random.uniform(-1, 1) * 10 ** random.randint(-9, 9) for _ in range(6)])


def _pretty(random: Random) -> str:
    rows = [{random.choice(WORDS): random.random(), "id": random.getrandbits(32), "ok": True} for _ in range(6)]
    return json.dumps(rows, indent=random.choice([None, 2, 4]))


def _hexdump(random: Random) -> str:
    data = random.randbytes(16)
    shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
    return f"{random.getrandbits(24):08x}  {data[:8].hex(' ')}  {data[8:].hex(' ')}  |{shown}|"


def _assembly(random: Random) -> str:
    return f"  {random.getrandbits(24):x}:\t{random.randbytes(3).hex(' ')}\tmov    %r{random.choice('abcd')}x,0x{random.getrandbits(8):x}(%rsp)"


def _sql(random: Random) -> str:
    name = random.choice(WORDS)
    return f"INSERT INTO {name.upper()}_LOG VALUES ({random.randint(1, 9999)}, '{name}', NULL, 0x{random.getrandbits(64):X});"


def _listing(random: Random) -> str:
    return f"-rwxr-xr-x  1 root wheel {random.randint(1, 10**7):>9} Nov {random.randint(1, 30):>2} 09:{random.randint(10, 59)} {random.choice(WORDS)}.tar.gz"


_PROTEIN, _DNA = "ACDEFGHIKLMNPQRSTVWY", "ACGT"
KINDS: dict[str, Callable[[Random], str]] = {
    "ascii": _of(string.ascii_letters + string.digits + string.punctuation + " \n", 400, 1_500),
    "letters": _of(string.ascii_letters, 400, 1_500),
    "small letters": _of(string.ascii_lowercase, 400, 1_500),
    "capitals": _of(string.ascii_uppercase, 400, 1_500),
    "small words": _words(string.ascii_lowercase),
    "capital words": _words(string.ascii_uppercase),
    "mixed words": _words(string.ascii_letters),
    "consonants": _words("bcdfghjklmnpqrstvwxz"),
    "vowels": _words("aeiouy"),
    "hawaiian words": _words("aeioukkhlmnpw"),
    "accented words": _words("aeiou" + _span(0xE0, 0xF6) + _span(0x100, 0x17F)),
    "latin extended": _words(_span(0x180, 0x24F) + _span(0x1E00, 0x1EFF)),
    "punctuation": _of(string.punctuation, 400, 1_000),
    "spaced punctuation": _words(string.punctuation, 3),
    "control characters": _of(_span(0, 31), 300, 600),
    "hex": _of("0123456789abcdef", 400, 1_500),
    "capital hex": _of("0123456789ABCDEF", 400, 1_500),
    "hex bytes": lambda random: random.randbytes(300).hex(random.choice(" :-,")),
    "digits": _of(string.digits, 400, 1_500),
    "digit grid": lambda random: json.dumps([[random.randint(0, 9) for _ in range(30)] for _ in range(15)]),
    "digit grid, tight": lambda random: "\n".join(",".join(random.choices("0123456789", k=40)) for _ in range(15)),
    "csv of floats": _lines(lambda random: ",".join(f"{random.gauss(0, 1):.4f}" for _ in range(8))),
    "json of floats": _lines(_numbers, 8),
    "json": _pretty,
    "base32": _bytes(base64.b32encode),
    "base58": _lines(_base58),
    "base64": _bytes(base64.b64encode),
    "base85": _bytes(base64.b85encode),
    "ascii85": _bytes(base64.a85encode),
    "uuids": _lines(lambda random: str(uuid.UUID(int=random.getrandbits(128)))),
    "jwt": lambda random: ".".join(base64.urlsafe_b64encode(random.randbytes(k)).decode() for k in (40, 300, 64)),
    "dna": lambda random: ">chr1\n" + _lines(_of(_DNA, 70, 70))(random),
    "small dna": _lines(_of(_DNA.lower(), 60, 60)),
    "rna": _lines(_of("ACGU", 60, 60)),
    "protein": lambda random: ">sp|P1\n" + _lines(_of(_PROTEIN, 60, 60))(random),
    "fastq": _lines(lambda random: f"@r\n{_of(_DNA, 80, 80)(random)}\n+\n{_of(_span(33, 73), 80, 80)(random)}", 5),
    "bits": _of("01", 400, 1_500),
    "bits with blanks": _words("01", 8),
    "dots and dashes": _words(".-", 5),
    "progress bars": lambda random: "".join(_bar(random) for _ in range(15)),
    "box drawing": _of(_span(0x2500, 0x257F), 300, 800),
    "boxes": _lines(_table, 8),
    "blocks": _of(_span(0x2580, 0x259F), 300, 800),
    "braille": _of(_span(0x2800, 0x28FF), 300, 800),
    "arrows and mathematics": _of(_span(0x2190, 0x22FF), 300, 800),
    "mathematical letters": _of(_span(0x1D400, 0x1D7FF), 200, 600),
    "emoji": _emoji,
    "combining marks": _zalgo,
    "private use": _of(_span(0xE000, 0xE100), 300, 600),
    "unassigned": _of(_span(0xE0080, 0xE00FF), 300, 600),
    "unicode": _any_unicode,
    "lone surrogates": _of(_span(0xD800, 0xDFFF), 300, 600),
    "hieroglyphs": _of(_span(0x13000, 0x130FF), 300, 600),
    "yi": _of(_span(0xA000, 0xA0FF), 300, 600),
    "rare ideographs": _of(_span(0x4E00, 0x9FFF), 300, 800),
    "rarer ideographs": _of(_span(0x3400, 0x4DBF), 300, 600),
    "syllables": _of(_span(0xAC00, 0xD7A3), 300, 800),
    "kana": _of(_span(0x3041, 0x3096) + _span(0x30A1, 0x30FA), 300, 800),
    "half-width kana": _of(_span(0xFF66, 0xFF9D), 300, 800),
    "full-width letters": _of(_span(0xFF01, 0xFF5E), 300, 800),
    "phonetic letters": _words(_span(0x250, 0x2AF)),
    "superscripts": _of(_span(0x2070, 0x209C), 300, 800),
    "circled letters": _of(_span(0x2460, 0x24FF), 300, 800),
    "one character": _repeated,
    "one pattern": _repeated_pair,
    "blanks": _blank_lines,
    "indented": _lines(_indented, 30),
    "camel case": lambda random: "".join(_camel(random) for _ in range(25)),
    "minified": lambda random: "".join(_minified(random) for _ in range(10)),
    "snake case": _lines(lambda random: "_".join(random.choices(WORDS, k=4)) + " = None"),
    "constants": _lines(lambda random: "_".join(random.choices(WORDS, k=3)).upper() + "=1"),
    "kebab case": _lines(lambda random: "--" + "-".join(random.choices(WORDS, k=3))),
    "stack traces": _lines(_trace, 10),
    "logs": _lines(_log, 8),
    "urls": _lines(_url, 8),
    "ansi": lambda random: "".join(_ansi(random) for _ in range(25)),
    "hex dump": _lines(_hexdump, 10),
    "assembly": _lines(_assembly, 14),
    "sql": _lines(_sql, 10),
    "listing": _lines(_listing, 10),
} | {
    f"random {name}": _words(_span(first, last))
    for name, first, last in (
        ("greek", 0x3B1, 0x3C9), ("capital greek", 0x391, 0x3A9), ("cyrillic", 0x430, 0x44F),
        ("capital cyrillic", 0x410, 0x42F), ("all cyrillic", 0x400, 0x52F), ("armenian", 0x561, 0x586),
        ("hebrew", 0x5D0, 0x5EA), ("arabic", 0x621, 0x64A), ("all arabic", 0x600, 0x6FF), ("syriac", 0x710, 0x74F),
        ("devanagari", 0x905, 0x94D), ("bengali", 0x985, 0x9B9), ("tamil", 0xB85, 0xBB9), ("telugu", 0xC05, 0xC39),
        ("thai", 0xE01, 0xE3A), ("lao", 0xE81, 0xEB9), ("tibetan", 0xF40, 0xF6C), ("burmese", 0x1000, 0x1049),
        ("georgian", 0x10D0, 0x10F0), ("ethiopic", 0x1200, 0x137C), ("cherokee", 0x13A0, 0x13F4),
        ("khmer", 0x1780, 0x17D3), ("mongolian", 0x1820, 0x1877), ("glagolitic", 0x2C00, 0x2C5F),
    )
}  # fmt: skip


LANGUAGES: dict[str, str] = json.loads((HELPERS / "corpora" / "languages.json").read_text(encoding="utf-8"))
"""Some sentences in each of more than a hundred languages; most are the first article of the declaration of human rights."""


def made(kind: str, seed: int = 0) -> str:
    """A text of one kind, the same for the same seed; half surrogate pairs as what providers are sent for them."""
    return KINDS[kind](Random(f"{kind} {seed}")).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def samples() -> dict[str, str]:
    """All languages, and a text of each kind of noise."""
    return LANGUAGES | {kind: made(kind) for kind in KINDS}
