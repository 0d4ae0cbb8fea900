"""Messages as bytes and back: exactly, type for type, and never more than data."""

from __future__ import annotations

import enum
import json
import math
import struct
import subprocess
import sys
import threading
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import anthropic.types as claude
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import chat, responses

from rows import rows
from unabridged.archive.codec import MAX_DEPTH, TYPE_KEY, allow, classes, decode, digest, encode
from unabridged.errors import ArchiveError

TEXTS = st.text(st.characters()) | st.text(st.characters(categories=["Cs"]) | st.sampled_from('\\"ud8a$'), max_size=6)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**6000), 10**6000)
    | st.floats(allow_nan=False)
    | TEXTS
    | st.binary(max_size=20)
    | st.sampled_from([TYPE_KEY, "tuple", -0.0])
)
KEYS = (
    TEXTS | st.sampled_from([TYPE_KEY, "items", "class"]) | st.integers() | st.booleans() | st.none() | st.tuples(TEXTS)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.dictionaries(TEXTS, inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Equal, of the same types all the way down, in the same order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            same(a, b) and same(one[a], other[b]) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    return bool(one == other)


def check_exact(value: Any) -> bytes:
    body = encode(value)
    back = decode(body)
    assert same(back, value), (value, back)
    assert encode(back) == body
    body.decode("utf-8")
    assert b"\n" not in body
    return body


@given(VALUES)
def test_what_comes_back_equals_what_went_in(value: Any) -> None:
    # R40
    check_exact(value)


@rows(
    "value",
    [
        "\ud83d\ude00",  # two lone surrogates that must not melt into one character
        "\ud83d", "a\\ud83d", "\\\ud83d\n\x00\x7f\x85\u2028\ufeff", "\U0001f600", "e\u0301", "é",
        10**5000, -(10**5000), 2**1024, 2**1024 - 1, True, 1, 1.0, -0.0, 5e-324, 1.7976931348623157e308,
        math.inf, -math.inf, b"", b"\x00\xff", bytearray(b"x"), (), ((),), [[], {}], {"": ""}, {1: "int", "1": "str"},
        {True: 1}, {None: 1}, {(1, "a"): b""}, {TYPE_KEY: 1}, {TYPE_KEY: "tuple", "items": []},
        {"a": {TYPE_KEY: {TYPE_KEY: TYPE_KEY}}},
        {"\ud800": 1}, {"b": 1, "a": 2}, {1, 2, 3}, set(), frozenset({"a", (1,)}),
        datetime(2024, 5, 1, 12, 30, 1, 5), datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 10, 27, 2, 30, fold=1),  # noqa: DTZ001
        datetime(2024, 5, 1, tzinfo=timezone(timedelta(hours=5, minutes=30), "IST")),
        datetime(2024, 5, 1, tzinfo=ZoneInfo("Europe/Berlin")), date(2024, 5, 1), time(1, 2, 3), timedelta(-1, 5, 7),
        Decimal("1E+5"), Decimal("-0.10"), UUID("550e8400-e29b-41d4-a716-446655440000"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_every_edge_case_is_exact(value: Any) -> None:
    check_exact(value)
    check_exact({"role": "user", "content": [value, {"deep": value}]})


def test_nan_comes_back_bit_for_bit() -> None:
    for bits in ("7ff8000000000000", "fff8000000000001", "7ff8000000000042"):
        value = struct.unpack(">d", bytes.fromhex(bits))[0]
        assert struct.pack(">d", decode(encode([value]))[0]).hex() == bits


def test_equal_messages_have_equal_bytes_and_unlike_ones_have_not() -> None:
    unlike = [
        1,
        1.0,
        True,
        "1",
        b"1",
        [1],
        (1,),
        {1},
        {"1": 1},
        {1: 1},
        None,
        "",
        [],
        (),
        {},
        {"a": 1, "b": 2},
        {"b": 2, "a": 1},
    ]
    assert len({encode(value) for value in unlike}) == len(unlike)
    assert encode({"x", "y", "z"}) == encode({"z", "y", "x"})
    assert digest(encode({"a": 1})) == digest(encode({"a": 1}))


def test_a_plain_message_is_plain_json() -> None:
    assert encode({"role": "user", "content": "größe"}) == '{"role":"user","content":"größe"}'.encode()


def without(message: pydantic.BaseModel, *names: str) -> pydantic.BaseModel:
    for name in names:
        delattr(message, name)
    return message


SDK_OBJECTS: dict[str, pydantic.BaseModel] = {
    "a chat message": chat.ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": {"provider's": "own"},
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "index": 0}],
        }
    ),
    "a parsed chat message": chat.ParsedChatCompletionMessage[None].model_validate(
        {"role": "assistant", "content": "x"}
    ),
    "a claude message": claude.Message.model_validate(
        {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "sig"},
                {"type": "text", "text": "hi", "citations": None, "extra": 1},
                {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls", "n": [1, None]}},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 2},
        }
    ),
    "a message whose empty fields were deleted": without(  # as LiteLLM does with its own
        chat.ChatCompletionMessage(role="assistant", content="hi", refusal=None), "refusal", "annotations"
    ),
    "a block built without checks": claude.TextBlock.model_construct(type="text", text=None, odd=(1, 2)),
    "a responses item": responses.ResponseFunctionToolCall(
        type="function_call", call_id="c1", name="f", arguments="{}", id="fc1"
    ),
    "a reasoning item": responses.ResponseReasoningItem.model_validate(
        {"type": "reasoning", "id": "rs1", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "e"}
    ),
}


@rows("name", SDK_OBJECTS)
def test_objects_of_the_sdks_come_back_as_themselves(name: str) -> None:
    message = SDK_OBJECTS[name]
    for value, get in (
        (message, lambda v: v),
        ({"role": "assistant", "content": [message]}, lambda v: v["content"][0]),
    ):
        back = get(decode(encode(value)))  # type: ignore[no-untyped-call]
        assert type(back) is type(message)
        assert back == message
        assert back.model_fields_set == message.model_fields_set
        assert back.model_extra == message.model_extra
        assert back.model_dump() == message.model_dump()
        assert repr(back) == repr(message)
        assert encode(back) == encode(message)


def test_the_blocks_inside_keep_their_classes() -> None:
    back = decode(encode(SDK_OBJECTS["a claude message"]))
    assert [type(block).__name__ for block in back.content] == ["ThinkingBlock", "TextBlock", "ToolUseBlock"]
    assert back.content[1].extra == 1


def test_objects_of_other_frameworks_come_back_where_they_are_installed() -> None:
    langchain = pytest.importorskip("langchain_core.messages")
    message = langchain.AIMessage("hi", tool_calls=[{"name": "f", "args": {"a": (1,)}, "id": "c1"}], id="m1")
    back = decode(encode(message))
    assert type(back) is langchain.AIMessage
    assert back == message


def test_messages_of_pydantic_ai_come_back_where_it_is_installed() -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart

    for message in (
        ModelRequest(parts=[UserPromptPart("hi", timestamp=datetime(2024, 5, 1, tzinfo=UTC))]),
        ModelResponse(parts=[TextPart("x"), ToolCallPart("f", {"a": 1}, tool_call_id="c1")]),
    ):
        back = decode(encode(message))
        assert type(back) is type(message)
        assert back == message


class Mood(enum.StrEnum):
    GOOD = "good"


@dataclass(frozen=True, slots=True)
class Note:
    text: str
    mood: Mood


class Card(pydantic.BaseModel, extra="allow"):
    note: Note
    _seen: bool = pydantic.PrivateAttr(default=False)


def test_a_class_of_the_callers_own_comes_back_in_the_process_that_wrote_it() -> None:
    card = Card(note=Note("n", Mood.GOOD), more=[1])  # type: ignore[call-arg]
    card._seen = True  # noqa: SLF001 - the private part must come back too
    back = decode(encode({"content": card}))["content"]
    assert back == card
    assert (type(back.note), back.note.mood, back._seen) == (Note, Mood.GOOD, True)  # noqa: SLF001


def test_in_another_process_it_is_data_until_it_is_allowed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    card = Card(note=Note("n", Mood.GOOD), more=[1])  # type: ignore[call-arg]
    body = encode({"content": card})
    monkeypatch.setattr(classes, "_classes_by_name", {})  # as a process that has written nothing
    monkeypatch.setattr(classes, "_reported_names", set())
    assert decode(body) == decode(body) == {"content": {"note": {"text": "n", "mood": "good"}, "more": [1]}}
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 3, "each class once"
    assert all(f"{__name__}.{kind.__name__}" in " ".join(told) for kind in (Card, Note, Mood))
    monkeypatch.setattr(classes, "ALLOWED_PREFIXES", set(classes.ALLOWED_PREFIXES))
    allow(f"{__name__}.")
    assert decode(body)["content"] == card


class Shout(str):
    __slots__ = ()


class HomeMade(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta:
        return timedelta(hours=1)

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> None:
        return None


def looped() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


class Knot(pydantic.BaseModel):
    up: Any = None
    _down: Any = pydantic.PrivateAttr(default=None)


def knotted() -> Knot:
    knot = Knot(up=Knot())
    knot.up.up = knot
    return knot


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


class Point(NamedTuple):
    x: int
    y: float


class Colours(enum.Flag):
    RED = 1
    BLUE = 2


class Lines(list[str]):
    pass


class Labelled(str):  # noqa: SLOT000 - what it has beside must come back too
    label = ""


def labelled() -> Labelled:
    text = Labelled("x")
    text.label = "l"
    return text


def local_classes() -> list[Any]:
    class Model(pydantic.BaseModel):
        a: int

    @dataclass
    class Data:
        a: Model

    return [Model(a=1), Data(Model(a=2))]


def generic_of_local() -> Any:
    class Answer(pydantic.BaseModel):
        city: str

    kind = chat.ParsedChatCompletionMessage[Answer]
    return kind(role="assistant", content='{"city":"Rome"}', parsed=Answer(city="Rome"))


OWN = [
    Shout("x"), Point(1, 0.5), Colours.RED, Colours.RED | Colours.BLUE, *local_classes(), generic_of_local(),
    chat.ParsedChatCompletionMessage[list[Card]](role="assistant"), {Shout("k"): Mood.GOOD},
    {Point(1, 2)},
]  # fmt: skip


@rows("value", OWN, ids=lambda value: type(value).__qualname__)
def test_whatever_the_program_itself_defines_comes_back_as_itself(value: Any) -> None:
    back = decode(encode({"content": [value]}))["content"][0]
    assert type(back) is type(value)
    assert back == value
    assert encode(back) == encode(value)


def test_a_class_of_attrs_comes_back_where_that_is_installed() -> None:
    attrs = pytest.importorskip("attrs")
    leaf = attrs.make_class("Leaf", ["name", "size"], frozen=True)("oak", 3)
    back = decode(encode({leaf: [leaf]}))
    assert back == {leaf: [leaf]}
    assert type(back[leaf][0]) is type(leaf)


def test_in_another_process_a_generic_class_of_an_unknown_one_is_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    body = encode(generic_of_local())
    monkeypatch.setattr(classes, "_classes_by_name", {})
    back = decode(body)
    assert type(back) is chat.ParsedChatCompletionMessage
    assert (back.role, back.content, back.parsed) == ("assistant", '{"city":"Rome"}', {"city": "Rome"})


class Oslo(datetime):
    pass


@rows(
    ("value", "data"),
    [
        (labelled(), "x"),
        (Lines(["a"]), ["a"]),
        (OrderedDict([("b", 1), ("a", 2)]), {"b": 1, "a": 2}),
        (Counter("aab"), {"a": 2, "b": 1}),
        (PurePosixPath("/a/b"), "/a/b"),
        (MappingProxyType({"a": (1,)}), {"a": (1,)}),
        (deque([1, 2]), [1, 2]),
        (range(3), [0, 1, 2]),
        (defaultdict(list, {"a": [1]}), {"a": [1]}),
        (IPv4Address("10.0.0.1"), "10.0.0.1"),
        (pydantic.HttpUrl("https://a.example/b"), "https://a.example/b"),
        (array("i", [1, 2]), [1, 2]),
        (Oslo(2024, 5, 1), datetime(2024, 5, 1)),  # noqa: DTZ001
        (
            datetime(2024, 5, 1, tzinfo=HomeMade()),
            datetime(2024, 5, 1, tzinfo=timezone(timedelta(hours=1))),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_can_be_dumped_is_archived_as_its_dump(value: Any, data: Any, caplog: pytest.LogCaptureFixture) -> None:
    classes._reported_names.clear()  # noqa: SLF001 - each class is told of once a process
    assert same(decode(encode({"x": [value]}))["x"], [data])
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_what_is_no_data_in_private_attributes_is_left_out() -> None:
    knot = Knot(up="x")
    knot._down = knot  # noqa: SLF001 - a circle that a dump would not see
    assert decode(encode(knot)).up == "x"
    knot._down = threading.Lock()  # noqa: SLF001 - likewise
    assert decode(encode(knot)).up == "x"


def test_a_field_that_is_newer_than_the_stored_object_has_its_default() -> None:
    body = encode(chat.ChatCompletionMessage(role="assistant", content="x"))
    stored = json.loads(body)
    del stored["fields"]["refusal"], stored["fields"]["tool_calls"]
    back = decode(json.dumps(stored).encode())
    assert (back.refusal, back.tool_calls, back.content) == (None, None, "x")


def test_a_field_that_the_class_no_longer_has_makes_it_data() -> None:
    body = encode(Note("n", Mood.GOOD)).replace(b'"text"', b'"told"')
    assert decode(body) == {"told": "n", "mood": Mood.GOOD}


@rows(
    ("value", "place"),
    [
        ({"content": [{"text": object()}]}, r"message\['content'\]\[0\]\['text'\]"),
        (object(), "message"),
        ({"x": len}, "builtin_function"),
        ({"x": Mood}, "message"),
        ({"x": iter([1])}, "list_iterator"),
        ({"x": threading.Lock()}, "lock"),
        (looped(), "within itself"),
        ({"a": [{"b": looped()}]}, "within itself"),
        (knotted(), r"message\.up\.up: it stands within itself"),
        (deep(MAX_DEPTH + 5), "120 levels"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_data_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(ArchiveError, match=place):
        encode(value)


def test_deep_nesting_up_to_the_limit_is_exact() -> None:
    check_exact(deep(MAX_DEPTH - 1))
    check_exact({"x": deep(MAX_DEPTH - 3), "y": (1,)})


EVIL = [
    '{"$unabridged":"object","class":"os:system","fields":{}}',
    '{"$unabridged":"object","class":"subprocess:Popen","fields":{"args":"ls"}}',
    '{"$unabridged":"object","class":"openai.types.chat:sys","fields":{}}',
    '{"$unabridged":"object","class":"openai.types.chat.chat_completion:Literal","fields":{}}',
    '{"$unabridged":"object","class":"openai.typesquat:X","fields":{}}',
    '{"$unabridged":"object","class":"openai:OpenAI","fields":{}}',
    '{"$unabridged":"object","class":"openai.types.chat.chat_completion:__builtins__","fields":{}}',
    '{"$unabridged":"object","class":["openai.types.chat.parsed_chat_completion:ParsedChoice",["os:x"]],"fields":{}}',
    '{"$unabridged":"object","class":7,"fields":{}}',
    '{"$unabridged":"object","class":{"$unabridged":"x"},"fields":{}}',
    '{"$unabridged":"enum","class":"openai.types.chat.chat_completion:ChatCompletion","name":"x"}',
    '{"$unabridged":"datetime","value":["2024-05-01",{"$unabridged":"ZoneInfo","value":"../../etc/passwd"},0]}',
    '{"$unabridged":"nothing known"}', '{"$unabridged":["x"]}', '{"$unabridged":null}', '{"$unabridged":"bytes"}',
    '{"$unabridged":"int","value":"zz"}', '{"$unabridged":"float","value":"00"}', '{"$unabridged":"set","value":[[]]}',
    '{"$unabridged":"dict","value":[[1]]}', "[", "", "\xff", "[" * 100_000,
]  # fmt: skip


@rows("body", EVIL, ids=lambda body: body[:60])
def test_a_body_is_data_whatever_it_says(body: str) -> None:
    before = set(sys.modules)
    try:
        found = decode(body.encode("latin-1"))
    except ArchiveError:
        pass
    else:
        assert type(found) in {dict, list, str}
    new = {name for name in set(sys.modules) - before if not name.startswith(("openai.", "anthropic.", "zoneinfo"))}
    assert not new


def acts(_: Any, *args: Any, **kwargs: Any) -> Any:
    raise AssertionError(f"code of the class ran: {args} {kwargs}")


@dataclass
class Trap:
    text: str = ""


class TrapModel(pydantic.BaseModel):
    text: str = ""

    @pydantic.field_validator("text")
    @classmethod
    def check(cls, value: str) -> str:
        raise AssertionError(value)


for _name in (
    "__init__",
    "__new__",
    "__post_init__",
    "__setattr__",
    "__setstate__",
    "__reduce_ex__",
    "model_post_init",
):
    setattr(Trap, _name, acts)
    setattr(TrapModel, _name, acts)


@dataclass
class Mine:
    path: str = ""

    def __del__(self) -> None:
        GONE.append(self.path)


GONE: list[str] = []


def test_no_code_of_a_class_runs_when_an_object_of_it_is_made() -> None:
    for kind in (Trap, TrapModel):
        named = classes.register_class_name(kind)  # even of one that this process wrote
        body = f'{{"{TYPE_KEY}":"object","class":"{named}","fields":{{"text":"x"}},"extra":null,"private":null,'
        back = decode((body + f'"set":{{"{TYPE_KEY}":"set","value":["text"]}}}}').encode())
        assert (type(back), back.text) == (kind, "x")
    planted = (
        f'{{"{TYPE_KEY}":"object","class":"{classes.register_class_name(Mine)}","fields":{{"path":"/etc/passwd"}}}}'
    )
    assert decode(planted.encode()) == {"path": "/etc/passwd"}, "what acts when it goes is never made"
    assert not GONE


def test_no_module_is_imported_because_a_body_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted_module.py").write_text("raise SystemExit('imported')")
    (tmp_path / "pydantic_ai_planted.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("planted_module:X", "pydantic_ai_planted:X", "antigravity:geohash", "this:s"):
        for kind in ("object", "enum", "like", "data"):
            body = json.dumps({TYPE_KEY: kind, "class": name, "fields": {"a": 1}, "name": "x", "value": 1})
            assert decode(body.encode()) in ({"a": 1}, 1)
        generic = {TYPE_KEY: "object", "class": [name, [name]], "fields": {"a": 1}}
        assert decode(json.dumps(generic).encode()) == {"a": 1}
        assert name.partition(":")[0] not in sys.modules


def test_the_core_needs_neither_pydantic_nor_an_sdk() -> None:
    code = (
        "import sys; from unabridged.archive.codec import encode, decode; "
        "decode(encode({'a': (1, 10**5000, '\\ud800')}));"
        "print(*[m for m in ('pydantic', 'openai', 'anthropic') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []
