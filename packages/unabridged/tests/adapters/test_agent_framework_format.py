"""Agent Framework's messages as a format: what is read, edited and mended of each kind of content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from agent_framework import Content, Message

from rows import rows
from unabridged import IllegalConversation, check, repair
from unabridged.adapters.agent_framework import StoredMessages
from unabridged.formats.base import Slot
from unabridged.messages import Answer, Call, Media, Reasoning, View

FORMAT = StoredMessages()
PICTURE = "data:image/png;base64,iVBORw0KGgo="
CALL = Content.from_function_call("c", "read", arguments='{"number": 7}')
HOSTED = Content.from_function_call("h", "browse", arguments="{}", hosted=True)
REQUEST = Content.from_function_approval_request("r", CALL)


def plain(role: str, *contents: Any, **fields: Any) -> Any:
    return Message(role, list(contents), **fields).to_dict()


def result(*items: Content | str, call_id: str = "c", **fields: Any) -> Content:
    contents = [Content.from_text(item) if isinstance(item, str) else item for item in items]
    return Content.from_function_result(call_id, result=contents, **fields)


READ = [
    (plain("user", "Hello", "there"), View("user", "person", "Hello\nthere")),
    (plain("user", "Hello", author_name="Ada"), View("user", "person", "Hello", speaker="Ada")),
    (plain("assistant", "Yes.", author_name="desk"), View("assistant", "model", "Yes.")),
    (plain("system", "Be exact."), View("system", "host", "Be exact.")),
    (
        plain("user", "Look", Content.from_uri(PICTURE, media_type="image/png")),
        View("user", "person", "Look", media=(Media("image", "image/png", PICTURE),)),
    ),
    (
        plain("user", Content.from_uri("https://x.org/a.pdf", media_type="application/pdf")),
        View("user", "person", media=(Media("document", "application/pdf", "https://x.org/a.pdf"),)),
    ),
    (
        plain("user", Content.from_hosted_file("file_1", media_type="image/png", name="a.png")),
        View("user", "person", media=(Media("image", "image/png", "file_1", name="a.png"),)),
    ),
    (plain("assistant", "So:", CALL), View("assistant", "model", "So:", calls=(Call("c", "read", '{"number": 7}'),))),
    (
        plain("assistant", Content.from_function_call("c", "read", arguments={"number": 7})),
        View("assistant", "model", calls=(Call("c", "read", '{"number":7}'),)),
    ),
    (
        plain("assistant", Content.from_text_reasoning(text="Hm.", protected_data="sealed"), "Yes."),
        View("assistant", "model", "Yes.", reasoning=(Reasoning("Hm.", "sealed"),)),
    ),
    (plain("tool", result("one", "two")), View("tool", "tool", answers=(Answer("c", "one\ntwo"),))),
    (
        plain("tool", result("no such log", exception="KeyError")),
        View("tool", "tool", answers=(Answer("c", "no such log", error=True),)),
    ),
    (
        plain("tool", result("drawn", Content.from_uri(PICTURE, media_type="image/png"))),
        View("tool", "tool", answers=(Answer("c", "drawn"),), media=(Media("image", "image/png", PICTURE),)),
    ),
    (
        plain("tool", result("a", call_id="c1"), result("b", call_id="c2")),
        View("tool", "tool", answers=(Answer("c1", "a"), Answer("c2", "b"))),
    ),
    (plain("assistant", "Wait.", REQUEST), View("assistant", "model", "Wait.")),
    (plain("user", REQUEST.to_function_approval_response(approved=True)), View("user", "person")),
    ({"role": "tool", "contents": [{"type": "function_result", "call_id": "c", "result": "old"}]},
     View("tool", "tool", answers=(Answer("c", "old"),))),
]  # fmt: skip


@rows(("message", "view"), READ)
def test_a_message_says_what_its_contents_say(message: Any, view: View) -> None:
    assert FORMAT.read(message) == view
    assert FORMAT.claims(message)
    assert FORMAT.read(Message.from_dict(message).to_dict()) == view


def test_what_a_provider_ran_itself_is_attached_and_answers_nothing() -> None:
    view = FORMAT.read(plain("assistant", HOSTED, "Found."))
    assert (view.text, view.calls) == ("Found.", ())
    assert "browse" in view.whole_text() or view.unread_digest
    assert check([plain("user", "Look"), plain("assistant", HOSTED, "Found.")], format=FORMAT) == []


@rows(
    "message",
    [
        {"role": "user", "contents": [{"type": "text", "text": 7}]},
        {"role": "tool", "contents": [{"type": "function_result", "call_id": ["c"], "result": "x"}]},
        {"role": 7, "contents": []},
    ],
)
def test_what_is_no_message_is_refused_with_its_place(message: Any) -> None:
    with pytest.raises(IllegalConversation):
        FORMAT.read(message)


def shout(kind: str) -> Callable[[Slot, str], str]:
    return lambda slot, text: text.upper() if slot.kind == kind else text


@rows(
    ("kind", "message", "changed"),
    [
        ("text", plain("user", "Hello"), {"text": "HELLO"}),
        ("call", plain("assistant", CALL), {"arguments": '{"NUMBER": 7}'}),
        (
            "call",
            plain("assistant", Content.from_function_call("c", "read", arguments={"number": 7})),
            {"arguments": {"NUMBER": 7}},
        ),
        ("media", plain("user", Content.from_uri(PICTURE, media_type="image/png")), {"text": PICTURE.upper()}),
    ],
)
def test_an_edit_changes_one_place_and_nothing_else(kind: str, message: Any, changed: dict[str, Any]) -> None:
    before = Message.from_dict(message).to_dict()
    edited = FORMAT.edit(message, shout(kind))
    assert message == before
    assert {key: edited["contents"][0][key] for key in changed} == changed
    assert Message.from_dict(edited).contents[0].type == ("text" if kind == "media" else message["contents"][0]["type"])
    assert FORMAT.edit(message, lambda _, text: text) is message


def test_an_edited_result_says_the_same_in_both_of_its_fields() -> None:
    message = plain("tool", result("one", "two"), result("three", call_id="d"))
    edited = FORMAT.edit(message, lambda slot, text: "gone" if slot == Slot("answer", "c") else text)
    first, second = edited["contents"]
    assert first["result"] == "gone\ngone"
    assert [item["text"] for item in first["items"]] == ["gone", "gone"]
    assert second is message["contents"][1]


def test_thinking_and_what_is_the_frameworks_own_is_not_edited() -> None:
    message = plain("assistant", Content.from_text_reasoning(text="Hm."), REQUEST)
    assert FORMAT.edit(message, lambda _, text: text.upper()) is message
    assert FORMAT.without_reasoning(message) == {**message, "contents": message["contents"][1:]}
    assert FORMAT.without_reasoning(plain("assistant", Content.from_text_reasoning(text="Hm."))) is None


def test_a_call_without_its_result_gets_one_and_a_result_without_its_call_goes() -> None:
    calls = [Content.from_function_call(f"c{i}", "read", arguments="{}") for i in range(3)]
    talk = [
        plain("user", "Read them."),
        plain("assistant", *calls),
        plain("tool", result("a", call_id="c0"), result("b", call_id="c2"), result("x", call_id="nobody's")),
        plain("assistant", "Done."),
    ]
    assert check(talk, format=FORMAT)
    mended = repair(talk, format=FORMAT).messages
    assert check(mended, format=FORMAT) == []
    answers = [(m["role"], answer.call_id) for m in mended for answer in FORMAT.read(m).answers]
    assert sorted(answers) == [("tool", "c0"), ("tool", "c1"), ("tool", "c2")]
    assert all(Message.from_dict(message).role == message["role"] for message in mended)


def test_a_list_that_ends_in_a_call_is_completed_in_a_message_of_its_own() -> None:
    talk = [plain("user", "Read it."), plain("assistant", CALL), plain("user", "And?")]
    mended = repair(talk, format=FORMAT).messages
    assert [message["role"] for message in mended] == ["user", "assistant", "tool", "user"]
    assert Message.from_dict(mended[2]).contents[0].items
