"""Which language a text is in, when that is certain: by its script, and for Latin script by its commonest words.

A summary is rejected for its language only on this evidence, so a doubt is no answer. Code, paths and addresses are
left out of account: they are in no language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

NAMES = {
    "cs": "Czech", "da": "Danish", "de": "German", "en": "English", "es": "Spanish", "fi": "Finnish", "fr": "French",
    "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch",
    "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "sv": "Swedish", "tr": "Turkish",
    "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip

# Words that are frequent in one of these languages and not words of the others, as far as that goes.
_COMMON = {
    "cs": "že jsem jsou není ale jako nebo který která které pro když také jen byl bylo aby může tak tento",
    "da": "og er ikke jeg det at på til af med har som også blev være hvad fra efter eller bliver nogle skal hvis",
    "de": "und der die das ist nicht ich ein eine mit auf für sich den dem auch wird wurde aber oder wenn nach bei",
    # The last few are words elsewhere too: they keep English notes in a telegram's style from being taken for Finnish.
    "en": "the and of to is that it was for with this are not but have from they which you has were been will would "
    "on no do as i at if",
    "es": "el los las una que y en del por con para se no es como pero más fue este esta también cuando hay muy",
    "fi": "on ja ei että se oli kun mutta myös tai niin ovat jos sitä tämä olen joka vain ole nyt hän kuin voi",
    "fr": "le les des est pas une et dans que pour qui sur avec plus au ce il sont mais du cette été aux nous vous",
    "hu": "és hogy nem egy az van volt meg csak már de ha ezt azt vagy kell még lesz mint lehet",
    "id": "yang dan untuk dengan tidak ini itu dari akan pada adalah telah juga atau bisa sudah dalam saya",
    "it": "il che di non una per sono del della con gli nel anche come più ma alla stato questo questa è dei delle",
    "nl": "de het een en van is niet dat op te zijn voor met die ook maar aan werd wordt naar nog bij heeft",
    "no": "og er ikke jeg det at på til av med har som også ble være hva fra etter eller blir noen skal hvis",
    "pl": "i w nie na się jest to że do z jak ale co tak być jego przez już tylko dla może czy są został",
    "pt": "o os as uma que e não do da em para com por se mais foi como mas dos das ao também está são foram você",
    "ro": "și este nu care pentru cu din la mai sunt dar fost sau când fi această acest că după prin",
    "sv": "och är inte jag det att på till av med har som också blev vara vad från efter eller blir några ska om",
    "tr": "ve bir bu için ile da de çok olarak daha gibi ama ne değil var olan kadar sonra ben mi",
    "vi": "là và của không có được cho này một với các những đã trong người khi để đến cũng như",
}
_WORDS = {code: frozenset(words.split()) for code, words in _COMMON.items()}
_SCRIPTS = (
    ("ko", re.compile(r"[\uac00-\ud7af\u1100-\u11ff]")),
    ("cyrillic", re.compile(r"[\u0400-\u052f]")),
    ("arabic", re.compile(r"[\u0600-\u06ff\u0750-\u077f]")),
    ("hebrew", re.compile(r"[\u0590-\u05ff]")),
    ("greek", re.compile(r"[\u0370-\u03ff]")),
    ("devanagari", re.compile(r"[\u0900-\u097f]")),
    ("thai", re.compile(r"[\u0e00-\u0e7f]")),
)
_HAN = re.compile(r"[\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"(?<![\w'\u2019./\\-])[^\W\d_]+(?![\w/\\(=])")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\"[^\"\n]{0,300}\"|“[^”\n]{0,300}”", re.DOTALL)
_SAMPLE = 24_000


def language_of(texts: Iterable[str]) -> str:
    """The code of the language, or the name of its script where several languages share it; "" in doubt."""
    sample = _CODE.sub(" ", "\n".join(text[: _SAMPLE // 4] for text in _spread(list(texts))))
    letters = len(_LETTER.findall(sample))
    if letters < 8:
        return ""
    # A sign of these scripts says as much as a word elsewhere: a fifth of the letters is most of the text.
    han, kana = len(_HAN.findall(sample)), len(_KANA.findall(sample))
    if (han + kana) * 5 >= letters:
        return "ja" if kana * 8 >= han + kana else "zh"
    for code, script in _SCRIPTS:
        if len(script.findall(sample)) * 3 >= letters:
            return code
    return _by_words(sample) if han + kana < letters // 20 else ""


def _by_words(sample: str) -> str:
    words = [word.lower() for word in _WORD.findall(sample)]
    if len(words) < 8:
        return ""
    tally = Counter({code: sum(word in known for word in words) for code, known in _WORDS.items()})
    (best, most), (_, second) = tally.most_common(2)
    certain = most >= 4 and most * 8 >= len(words) and most >= 1.4 * second
    return best if certain else ""


def _spread(texts: list[str]) -> list[str]:
    """Some of the texts, from all over the conversation, within the sample."""
    step = max(1, sum(min(len(text), _SAMPLE // 4) for text in texts) // _SAMPLE)
    return texts[::step]
