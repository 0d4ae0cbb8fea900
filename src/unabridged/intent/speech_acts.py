"""What a message does to what was said before it: goes on with it, corrects it, drops it, asks back, or starts anew.

Read off the words alone, in all languages at once; what became of a request in the end is read off the sequence of such
moves, in `requests`.
"""

from __future__ import annotations

import re

from unabridged.intent.entries import Asks
from unabridged.intent.frames import frames
from unabridged.intent.person_words import QUOTED
from unabridged.languages import EASTERN, detect, eastern_words, folded, phrases, tables, vocabulary
from unabridged.messages import View
from unabridged.text_cache import remembered
from unabridged.text_tools import bare, blank_fences, sentences

_LONG = 1_200
"""Characters from which on an answer says so much that a question at its end is an offer."""
_SHORT = 240
"""Characters up to which a report is about one thing, so that "next" and "still" speak of the task."""
_GOES_ON = (",", ":", ";", "(", "\uff0c", "\uff1a", "\u3001")
"""Marks that no last sentence ends with."""
_ENDS = (".", "!", "?", "\u3002")
_BETWEEN = re.compile(r"[\W_]+")
_PARTS = re.compile(r"[^\w'-]+")
_COMMAND = re.compile(r"/[a-z-]*")
_QUESTION = re.compile(r"[?\uff1f\u061f][^\w?\uff1f\u061f]*+\Z")
_CLAUSE = re.compile(r"[;:\u2013\u2014\uff1b\uff1a] *(?=\w)")
_LEADING = re.compile(r"[\W_]*")
_BREAK = re.compile(r"\s*(?:[^\w\s(#]|\Z)")
_NODS = ("go", "yes", "thanks", "praise", "filler")
"""The kinds of words that a message is made of which only nods or thanks."""
_SIGNS_OF_A_NOD = 40
"""Signs of a script without spaces up to which a message may be a mere nod: one can be read as words in many ways."""
_STOPPED = re.compile("|".join(frames()["stopped"]))
"""What hosts write where a person stopped the assistant, or refused a call of its; looked for in small letters."""
_SIGNS = str.maketrans({sign: f" {word} " for word, signs in frames()["signs"].items() for sign in signs})


@remembered
def kind_of(text: str) -> str:
    """What these words do to the request before them; `new` when they stand on their own."""
    words = folded(text.strip())
    if _COMMAND.fullmatch(words) or _has_enough(words):  # "/theme" is for the host, not for the assistant.
        return "ack"
    says_more = phrases("hold", "withdraw").at_start(words) or _QUESTION.search(words)
    if len(words) <= 120 and not says_more and (plain := _nod(words.translate(_SIGNS))):  # "don't go on" is no nod
        return plain
    return _change_of_course(words) or ("more" if _goes_on(text) else "new")


@remembered
def asks_back(text: str, worked: int) -> Asks:
    """Whether the assistant's closing words wait for the person's answer, propose a step, offer more, or simply end.

    A question after the work was reported as done is an offer; so is one at the end of a long answer. A proposal is an
    offer to do what was not reported as done: whether it leaves a request open depends on the request.
    """
    told = _sentences_of(text[-_LONG:])
    *_, asked, end = "", "", *told  # "Shall I? (yes/no)", "Which one? With that I can go on."
    courtesy, to_person = phrases("courtesy").inside, phrases("asks", "offer").inside(asked)
    again = _ends_asking(end) and not courtesy(end)
    if _ends_asking(asked) and not again and ((to_person and not courtesy(asked)) or few_words(end, 4)):
        told.pop()
    last = "".join(told[-1:])
    done, more = reports_done(text), len(text) > _LONG or courtesy(last)
    if _ends_asking(last):
        return "offer" if more else _kind_of_question(told, worked, done=done)
    return "question" if phrases("asks").inside(last) and not more and not done else ""


def asks(sentence: str) -> bool:
    """Whether a sentence of the assistant's asks or offers something."""
    return _ends_asking(folded(sentence)) or phrases("asks", "offer").inside(folded(sentence))


@remembered
def reports_done(text: str) -> bool:
    """Whether the assistant says that the work is done, and nothing of it left.

    Where it says so at the very beginning, what is left further down is something else.
    """
    words, begun = folded(text[-_LONG:]), _begins_done(_sentences_of(text[:_LONG]))
    return begun or (phrases("done", "reported").inside(words) and not phrases("remains").inside(words))


@remembered
def breaks_off(text: str) -> bool:
    """Whether the assistant's closing words announce what it does next: they close nothing."""
    last = after_small_words("".join(_sentences_of(text[-_LONG:])[-1:]))
    return phrases("promise").at_start(last) > 0 and not phrases("acknowledged", "asks", "courtesy").at_start(last)


@remembered
def tells_of_rest(text: str) -> bool:
    """Whether a short report ends by saying that something is still to be done: "5 of 12 are ported so far"."""
    told = _sentences_of(text) or [""]
    rest = phrases("remains").inside(told[-1]) and not phrases("done").inside(told[-1])
    return rest and len(text) <= _SHORT and not _begins_done(told)


@remembered
def is_plan(text: str) -> bool:
    """Whether it says what somebody would do: at its beginning or at its end."""
    told = _sentences_of(blank_fences(text))
    return any(phrases("plan").inside(sentence) for sentence in (*told[:2], *told[-1:]))


@remembered
def is_question(text: str) -> bool:
    """Whether a person's message only wants to know something: it tells nothing and orders nothing, even politely."""
    told = _sentences_of(blank_fences(text[:_LONG])) or [""]
    wonders = phrases("tell", "why").inside(told[-1]) or phrases("which").at_start(after_small_words(told[-1]))
    if not _asking(told[-1]) or (phrases("polite").inside(told[-1]) and not wonders):
        return False
    return all(_asking(sentence) or few_words(sentence, 4) for sentence in told)


def wants_to_know(text: str) -> bool:
    """Whether words are all that is asked for: a question, or an order to tell something and to do nothing else."""
    words = after_small_words(folded(text.strip()))
    tells = phrases("tell", "inquiries")
    told = (tells.inside if words[:1] > EASTERN else tells.at_start)(words) and not phrases("and").inside(words)
    asked = phrases("which").at_start(words.rpartition(", ")[2]) and not orders(text)  # "it is red, what's failing"
    return bool(told or asked) or is_question(text)


def orders(text: str) -> bool:
    """Whether it begins with what is to be done."""
    return phrases("tasks", "polite").at_start(after_small_words(folded(text.strip()))) > 0


def says_go(text: str) -> bool:
    """Whether the words tell the assistant to go on."""
    return phrases("go").inside(folded(text))


def wants_instead(text: str) -> bool:
    """Whether the words say that they want something in place of something else."""
    return phrases("instead").inside(folded(text))


def is_stopped(view: View) -> bool:
    """Whether the assistant was stopped here: the turn begins with the host's mark of it, or a call was refused."""
    if view.origin in {"host", "person"} and view.text.lstrip().startswith(("[", "<")):
        return bool(_STOPPED.search(view.text.lstrip().partition("]")[0][:120].lower()))
    return bool(view.answers and _STOPPED.search(view.answers[-1].text[:120].lower()))


@remembered
def is_cut_off(text: str) -> bool:
    """Whether the assistant's words stop in mid-sentence: in code, after "the", or without the mark others end with.

    An item of a list ends as those before it do, and a row of a table.
    """
    *above, last = (line.strip() for line in text.strip().split("\n"))
    in_code = text.count("```") % 2 or (last.replace("```", "").count("`") % 2 and last[-1] not in ".!?)")
    if in_code or last.endswith(_GOES_ON) or not bare(f"{last} "):
        return True
    kind, word = _kind_of_line(last), folded(last).rpartition(" ")[2]
    letter = "#" if word[:1] == "#" else last[-1:]  # "#lamp"
    if letter == "|" if kind == "|" else not (word.isdigit() or letter.isalpha()) or letter.isupper():
        return False
    others, mark = above if kind else sentences(blank_fences(text))[:-1], "|" if kind == "|" else _ENDS
    ended = [other.endswith(mark) for other in others if not kind or _kind_of_line(other) == kind][-3:]
    long = len(sentences(bare(last))) > 1 or not few_words(last, 5)
    tongue = {} if few_words(last, 3) or len(word) > 3 else tables().get(detect([folded(last)]), {})
    runs_on = any(ended) if long else kind != "" and len(ended) > 1 and all(ended)
    return runs_on or word in tongue.get("common", "").split()  # hardly any sentence ends with "the"


def _kind_of_line(line: str) -> str:
    """What a line of a list or a table begins with; "" for one of a text."""
    return line[0] if line.startswith(("|", "(")) else "-" * (bare(line) != line)


def few_words(text: str, most: int) -> bool:
    """At most so many words; two signs of a script without spaces count as one."""
    text = text[:2_000]
    words = len(text.split())
    return words <= most and (text.isascii() or words + sum(char > EASTERN for char in text) // 2 <= most)


def after_small_words(words: str) -> str:
    """The folded words without what only opens them: "thanks, ok, please"."""
    rest = _LEADING.sub("", words, count=1)
    for _ in range(6):
        reach = phrases("prefix", "openers", "yes", "thanks", "praise").at_start(rest)
        if eastern := eastern_words("yes", "thanks", "praise", "filler").match(rest):
            reach = max(reach, eastern.end())
        if not reach:
            break
        rest = _LEADING.sub("", rest[reach:], count=1)
    return rest


def _nod(words: str) -> str:
    """`resume` for a message that only nods, `ack` for one that only thanks; "" for one that says something."""
    tokens = [token for token in _PARTS.split(words) if token]
    if len(tokens) == 1 and tokens[0] in vocabulary("initials"):
        return "resume"
    if tokens and all(token in vocabulary(*_NODS) for token in tokens):
        met = {kind for kind in _NODS if any(token in vocabulary(kind) for token in tokens)}
        if met & {"go", "yes"} or "thanks" not in met:
            return "resume" if met - {"filler"} else ""
        return "ack"
    signs = _BETWEEN.sub("", words)
    if len(signs) > _SIGNS_OF_A_NOD or not eastern_words(*_NODS).fullmatch(signs):
        return ""
    return "resume" if eastern_words("go").search(signs) or not eastern_words("thanks").search(signs) else "ack"


def _change_of_course(words: str) -> str:
    """`withdraw`, `hold` or `correct` for words that begin so; "ok, hmm, wait, never mind": after the small words."""
    starts = [words]
    while len(starts) < 4 and (reach := phrases("prefix").at_start(starts[-1])):
        starts.append(_LEADING.sub("", starts[-1][reach:], count=1))
    held = [start[reach:] for start in starts if (reach := phrases("hold").at_start(start))]
    if any(map(_withdraws, (*starts, *(_LEADING.sub("", rest, count=1) for rest in held)))):
        return "withdraw"
    corrects = any(map(phrases("correct").at_start, starts))  # "no, never mind" withdraws
    if held and not corrects and few_words(held[0], 4) and not _QUESTION.search(words):
        return "withdraw" if phrases("withdraw").inside(held[0]) else "hold"
    return "correct" if corrects else ""


def _has_enough(words: str) -> bool:
    """Whether the person says that there is nothing else: "no, that's all, thanks"."""
    rest = after_small_words(words) if few_words(words, 20) else ""
    reach = 0 if _QUESTION.search(rest) else phrases("enough").at_start(rest)
    return reach > 0 and not phrases("correct", "tasks", "polite", "onward", "go").inside(rest[reach:])


def _kind_of_question(told: list[str], worked: int, *, done: bool) -> Asks:
    """What a question at the end of a short answer does."""
    last = told[-1]
    short = len(told) > 1 and few_words(last, 1)  # "I can push it tonight. Okay?"
    offers, begun = short or phrases("offer").inside(last), _begins_done(told) or phrases("done").inside(" ".join(told))
    if (phrases("start").inside(last) and not done) or not (offers or begun):
        return "question"  # "I moved the models. Should the views go there too?"
    if done and worked == 2:
        return "offer"
    if offers and not phrases("which").at_start(after_small_words(last)):
        return "offer" if done else "proposal"
    return "question"


def _withdraws(words: str) -> bool:
    """Whether the words begin by dropping what was asked: "never mind …", but not "cancel this order"."""
    if reach := phrases("withdraw").at_start(words):
        return few_words(words[reach:], 14) or (few_words(words[reach:], 80) and bool(_BREAK.match(words, reach)))
    reach = phrases("cancel").at_start(words)
    if not reach or not few_words(words[reach:], 80):
        return False
    following = _PARTS.split(words[reach:].strip(), maxsplit=1)[0]
    return bool(_BREAK.match(words, reach)) or following in vocabulary("prefix", "openers", "filler")


def _sentences_of(text: str) -> list[str]:
    """The sentences of a text, folded, without a list's numbers; where one ends is told by the capital behind it."""
    return [folded(sentence) for sentence in sentences(text) if not sentence[:-1].isdigit()]


def _goes_on(text: str) -> bool:
    """Whether the first or the last sentence tells the assistant to go on with what it was at."""
    if len(text) > _LONG:
        text = f"{text[: _LONG // 2]}\n{text[-_LONG // 2 :]}"
    onward, negators = phrases("onward"), vocabulary("negators")
    told = [sentence for sentence in _sentences_of(QUOTED.sub(" ", text)) if not _nod(sentence) or says_go(sentence)]
    told = [said for said in (*told[:1], *told[-1:]) if few_words(said, 30) and not _QUESTION.search(said)]
    clauses = [after_small_words(clause) for said in told for clause in _CLAUSE.split(said.replace(", ", "; "))]
    eastern = ((said, start) for said in told if few_words(said, 16) for start, _ in onward.found(said))
    goes = (said[start] > EASTERN and said[:start].rstrip()[-1:] not in negators for said, start in eastern)
    return any(map(_nod, told)) or any(map(onward.at_start, clauses)) or any(goes)


def _asking(sentence: str) -> bool:
    """Whether the sentence is a question, also where it goes without the mark."""
    return _ends_asking(sentence) or phrases("why").at_start(after_small_words(sentence)) > 0


def _ends_asking(sentence: str) -> bool:
    """Whether the sentence ends as a question: with its mark, or with a word that stands for it."""
    bare = sentence.rstrip(".\u3002! ")
    return bool(_QUESTION.search(sentence)) or (bare[-1:] > EASTERN and bare.endswith(tuple(vocabulary("ending"))))


def _begins_done(told: list[str]) -> bool:
    """Whether the first sentence says that it is done: "Fixed: …"."""
    first = after_small_words("".join(told[:1]))
    return bool(phrases("done", "did").at_start(first)) and not phrases("remains").inside(first)
