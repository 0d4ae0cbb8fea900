"""Gemini's contents: read and edited in every shape they come in, paired with ids and without, legal by its rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from conversations import gemini_round, user
from engine_case import compactor
from unabridged import check, repair
from unabridged.formats import GeminiContents, Slot, detect_message_format
from unabridged.formats.fields import Unreadable
from unabridged.messages import Answer, Call, Media, Reasoning
from unabridged.sessions import load, save

GEMINI = GeminiContents()
GEMINI_3 = "gemini-3-flash-preview"
REST: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "Look."}, {"inlineData": {"mimeType": "image/png", "data": "AAEC"}}]},
    {
        "role": "model",
        "parts": [
            {"text": "Which one?", "thought": True},
            {"text": "Looking."},
            {"functionCall": {"id": "f1", "name": "read", "args": {"path": "a"}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "read", "args": {"path": "b"}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "f1", "name": "read", "response": {"output": "A"}}},
            {"functionResponse": {"name": "read", "response": {"error": "gone"}}},
        ],
    },
    {
        "role": "model",
        "parts": [
            {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/film"}},
        ],
    },
]
OBJECTS = [types.Content.model_validate_json(json.dumps(turn)) for turn in REST]
SNAKE = [turn.model_dump(exclude_none=True) for turn in OBJECTS]


@pytest.mark.parametrize("turns", [REST, OBJECTS, SNAKE], ids=["as REST sends it", "objects", "the SDK's dicts"])
def test_every_shape_reads_the_same(turns: list[Any]) -> None:
    asked, called, answered, ran = map(GEMINI.read, turns)
    assert (asked.origin, asked.text, asked.media) == ("person", "Look.", (Media("image", "image/png", "AAEC"),))
    assert (called.role, called.text) == ("assistant", "Looking.")
    assert called.calls == (Call("f1", "read", '{"path":"a"}'), Call("read#2", "read", '{"path":"b"}'))
    assert called.reasoning == (Reasoning("Which one?"), Reasoning("", "c2ln"))
    assert (answered.role, answered.origin) == ("user", "tool")
    assert answered.answers == (Answer("f1", "A"), Answer("read#2", "gone", error=True))
    assert (ran.attached, ran.media[0]) == (("print(1)", "1"), Media("video", "video/mp4", "gs://b/film"))
    assert [GEMINI.read(turn).meaning_digest for turn in turns] == [GEMINI.read(turn).meaning_digest for turn in REST]
    assert detect_message_format(turns) is not None
    assert detect_message_format(turns).name == "gemini"
    assert check(turns) == []


@pytest.mark.parametrize("turns", [REST, OBJECTS, SNAKE], ids=["as REST sends it", "objects", "the SDK's dicts"])
def test_an_edit_gives_a_copy_of_the_same_class_and_leaves_the_rest_as_it_is(turns: list[Any]) -> None:
    def shout(slot: Slot, text: str) -> str:
        return "[a picture]" if slot.kind == "media" else text if slot.kind == "call" else text.upper()

    before = repr(turns)
    edited = [GEMINI.edit(turn, shout) for turn in turns]
    assert repr(turns) == before
    assert [type(turn) for turn in edited] == [type(turn) for turn in turns]
    asked, called, answered, ran = map(GEMINI.read, edited)
    assert (asked.text, asked.media) == ("LOOK.\n[a picture]", ())
    assert (called.text, called.reasoning) == ("LOOKING.", GEMINI.read(REST[1]).reasoning)
    assert [answer.text for answer in answered.answers] == ["A", "GONE"]
    assert ran.attached == ("print(1)", "1")
    assert all(GEMINI.edit(turn, lambda _, text: text) is turn for turn in turns)


def test_a_response_without_an_id_is_to_the_call_of_its_name_at_its_place() -> None:
    """Which is how the SDK itself answers: `Part.from_function_response` has no id, the model's calls have."""
    called = types.Content(
        role="model",
        parts=[
            types.Part(function_call=types.FunctionCall(id=f"f{i}", name=name, args={"n": i}))
            for i, name in enumerate(("read", "list", "read"))
        ],
    )
    answers = [
        types.Part.from_function_response(name=name, response={"result": name}) for name in ("list", "read", "read")
    ]
    turns = [GEMINI.text("user", "Go."), called, types.Content(role="user", parts=answers)]
    assert check(turns) == []
    ids = [call.ids for call in GEMINI.read(called).calls]
    assert ids == [("f0", "read#1"), ("f1", "list#1"), ("f2", "read#2")]
    assert [answer.call_id for answer in GEMINI.read(turns[2]).answers] == ["list#1", "read#1", "read#2"]


def test_with_ids_responses_may_come_in_any_order() -> None:
    call, answers = gemini_round("read", "first", "second")
    for i, part in enumerate(call["parts"]):
        part["functionCall"]["id"] = answers["parts"][i]["functionResponse"]["id"] = f"f{i}"
    answers["parts"].reverse()
    assert check([GEMINI.text("user", "Go."), call, answers]) == []
    assert [answer.call_id for answer in GEMINI.read(answers).answers] == ["f1", "f0"]


def test_responses_in_several_turns_are_joined_and_what_is_missing_is_put_in_at_its_place() -> None:
    call, answers = gemini_round("read", "first", "second", "third")
    apart = [{"role": "user", "parts": [part]} for part in answers["parts"]]
    turns = [GEMINI.text("user", "Go."), call, *apart]
    assert check(turns)
    assert repair(turns).messages == [*turns[:2], answers]
    call["parts"].insert(1, {"functionCall": {"name": "list", "args": {}}})
    mended = repair(turns).messages
    assert check(mended) == []
    assert [part["functionResponse"]["name"] for part in mended[2]["parts"]] == ["read", "read", "read", "list"]
    assert "error" in mended[2]["parts"][3]["functionResponse"]["response"]


def test_a_stub_stands_at_the_place_of_its_call() -> None:
    """The first of two calls is answered by nobody, by its id: the answer that is there must not become its answer."""
    call, _ = gemini_round("read", "first", "second")
    call["parts"][0]["functionCall"]["id"], call["parts"][1]["functionCall"]["id"] = "f0", "f1"
    second = {
        "role": "user",
        "parts": [{"functionResponse": {"id": "f1", "name": "read", "response": {"output": "2"}}}],
    }
    mended = repair([GEMINI.text("user", "Go."), call, second]).messages
    assert {answer.call_id: answer.error for answer in GEMINI.read(mended[2]).answers} == {"f0": True, "f1": False}


def test_from_gemini_3_on_every_step_of_the_current_turn_is_signed() -> None:
    signed, bare = gemini_round("read", "a", signature="c2ln"), gemini_round("read", "b")
    asked = GEMINI.text("user", "Go.")
    assert check([asked, *bare, asked, *signed], model=GEMINI_3) == []
    assert check([asked, *signed, *bare], model="gemini-2.5-flash") == []
    turns = [asked, *signed, *bare]
    assert [(found.rule, found.index) for found in check(turns, model=GEMINI_3)] == [("unsigned-call", 3)]
    mended = repair(turns, model=GEMINI_3).messages
    assert mended[:3] == turns[:3]
    assert mended[3]["parts"][0]["thoughtSignature"] == "skip_thought_signature_validator"
    part = types.Part(function_call=types.FunctionCall(name="read", args={}))
    called = types.Content(role="model", parts=[part])
    mended = repair([asked, called, bare[1]], model=GEMINI_3).messages
    assert mended[1].parts[0].thought_signature == b"skip_thought_signature_validator"


def test_thoughts_and_signatures_can_be_taken_out_and_only_they() -> None:
    for turns in (REST, OBJECTS, SNAKE):
        bare = GEMINI.without_reasoning(turns[1])
        view = GEMINI.read(bare)
        assert (view.reasoning, view.text, len(view.calls)) == ((), "Looking.", 2)
        assert GEMINI.without_reasoning(turns[2]) is turns[2]
    assert GEMINI.without_reasoning({"role": "model", "parts": REST[1]["parts"][:1]}) is None


def test_pictures_in_a_response_are_the_tools_and_leave_it_as_text() -> None:
    shown = types.FunctionResponsePart.from_bytes(data=b"\0\1\2", mime_type="image/png")
    response = types.FunctionResponse(name="shot", response={"output": "done"}, parts=[shown])
    turn = types.Content(role="user", parts=[types.Part(function_response=response)])
    assert GEMINI.read(turn).media == (Media("image", "image/png", "AAEC"),)
    edited = GEMINI.edit(turn, lambda slot, text: "[gone]" if slot.kind == "media" else text)
    assert edited.parts[0].function_response.response == {"output": "done\n[gone]"}
    assert not GEMINI.read(edited).media


def test_an_object_as_a_response_is_its_json_and_stays_an_object() -> None:
    turn = {"role": "user", "parts": [{"functionResponse": {"name": "get", "response": {"rows": [1], "next": "word"}}}]}
    assert GEMINI.read(turn).answers[0].text == '{"rows":[1],"next":"word"}'
    edited = GEMINI.edit(turn, lambda _, text: text.replace("word", "other"))
    assert edited["parts"][0]["functionResponse"]["response"] == {"rows": [1], "next": "other"}
    stub = GEMINI.edit(turn, lambda _, __: "[cleared]")
    assert GEMINI.read(stub).answers[0].text == "[cleared]"


def test_an_empty_turn_is_read_and_a_message_of_another_format_is_not() -> None:
    assert GEMINI.read({"role": "model"}).text == GEMINI.read(types.Content(role="model")).text == ""
    with pytest.raises(Unreadable, match="parts"):
        GEMINI.read(user("hello"))


def test_a_request_in_a_file_is_compacted_where_it_stands(tmp_path: Path) -> None:
    turns = [GEMINI.text("user", "Check every file.")]
    for i in range(40):
        turns += gemini_round("read", f"file {i} " * 60, path=f"{i}")
    request = {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": turns, "tools": []}
    (file := tmp_path / "request.json").write_text(json.dumps(request))
    loaded = load(file)
    assert (loaded.format, loaded.system, loaded.messages) == ("gemini", request["systemInstruction"], turns)
    with compactor(window=4_000) as engine:
        save(loaded, engine.fit(loaded.messages, thread="t").messages, tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["systemInstruction"] == request["systemInstruction"]
    assert len(written["contents"]) < len(turns)
    assert check(written["contents"]) == []


@pytest.mark.parametrize("objects", [False, True, None], ids=["dicts", "objects", "both"])
def test_a_turn_whose_parts_were_replaced_is_measured_anew(objects: bool | None) -> None:
    turns: list[Any] = [GEMINI.text("user", "Hello."), GEMINI.text("assistant", "Hello."), GEMINI.text("user", "Bye.")]
    if objects is not False:
        turns[objects is None :] = [types.Content.model_validate(turn) for turn in turns[objects is None :]]
    with compactor(window=100_000) as engine:
        before = engine.fit(turns, thread="t").tokens_before
        if objects is False:
            turns[2]["parts"] = [{"text": "more " * 500}]
        else:
            turns[2].parts = [types.Part(text="more " * 500)]
        assert engine.fit(turns, thread="t").tokens_before > before + 200


def test_what_stays_of_the_sdks_contents_are_the_very_objects_and_what_went_comes_back() -> None:
    turns: list[Any] = [types.Content(role="user", parts=[types.Part(text="Check every file.")])]
    for i in range(40):
        turns += [types.Content.model_validate(turn) for turn in gemini_round("read", f"file {i} " * 60, path=f"{i}")]
    with compactor(window=4_000) as engine:
        fitted = engine.fit(turns, thread="t")
        assert fitted.changed
        assert check(fitted.messages) == []
        assert fitted.messages[-1] is turns[-1]
        assert engine.replay(fitted.messages, thread="t") == turns
