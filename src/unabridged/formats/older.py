"""How earlier versions read what is now read better: only for the keys of the records they made.

The meaning of a message is part of the key under which a compaction is found again. A message that was read the same
way has the same meaning; for the others `View.older` holds the view of that time. Nothing else may look at it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unabridged.formats.base import Message, as_json, get, id_at, kind_of, plain, text_at, word
from unabridged.messages import Answer, Media, View

_TEXTS = frozenset({"text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text"})
_OPAQUE = frozenset({"compaction", "container_upload", "mid_conversation_system", "fallback"})


def content(value: Any) -> tuple[str, tuple[Media, ...]]:
    """The texts and media of a content; other parts were passed over."""
    texts: list[str] = []
    found: list[Media] = []
    for part in [value] if isinstance(value, str) else value or ():
        if isinstance(part, str):
            texts.append(part)
        elif kind_of(part) in _TEXTS:
            texts.append(text_at(part, "text") or text_at(part, "refusal"))
        elif (item := media(part)) is not None:
            found.append(item)
    return "\n".join(text for text in texts if text), tuple(found)


def media(part: Any) -> Media | None:
    """What was taken for media: documents made of text, too."""
    kind = word(part, "type")
    if kind in {"image", "document"}:
        source = get(part, "source") or {}
        data = get(source, "data") or get(source, "url") or get(source, "file_id") or get(source, "content") or ""
        data = data if isinstance(data, str) else content(data)[0]
        return Media("image" if kind == "image" else "document", "", data)
    if kind == "image_url":
        image = get(part, "image_url")
        return Media("image", "", image if isinstance(image, str) else text_at(image, "url"))
    if kind == "input_image":
        return Media("image", "", text_at(part, "image_url") or text_at(part, "file_id"))
    if kind == "input_audio":
        return Media("audio", "", text_at(get(part, "input_audio") or part, "data"))
    if kind in {"file", "input_file"}:
        file = get(part, "file") or part
        data = text_at(file, "file_data") or text_at(file, "file_url") or text_at(file, "file_id")
        return Media("document", "", data)
    return None


def anthropic(view: View, blocks: Any) -> View:
    """A message of Anthropic's: other blocks were its author's text, as JSON."""
    texts: list[str] = []
    answers: list[Answer] = []
    shown: list[Media] = []
    opaque = False
    for block in blocks:
        kind = None if isinstance(block, str) else kind_of(block)
        if isinstance(block, str) or kind == "text":
            texts.append(block if isinstance(block, str) else text_at(block, "text"))
        elif kind == "tool_result":
            text, inner = content(get(block, "content"))
            answers.append(Answer(id_at(block, "tool_use_id"), text, bool(get(block, "is_error"))))
            shown += inner
        elif kind in {"tool_use", "thinking", "redacted_thinking"}:
            continue
        elif (item := media(block)) is not None:
            shown.append(item)
        elif kind in _OPAQUE:
            opaque = True
        else:
            texts.append(as_json(plain(block)))
    text = "\n".join(text for text in texts if text)
    return View(view.role, view.origin, text, view.calls, tuple(answers), tuple(shown), opaque=opaque)


def chat(view: View, parts: Any) -> View:
    """A message of Chat's: parts that were not known were passed over."""
    text, shown = content(parts)
    if view.answers:
        answer = Answer(view.answers[0].call_id, text, view.answers[0].error)
        return View(view.role, view.origin, "", view.calls, (answer,), shown)
    return View(view.role, view.origin, text, view.calls, (), shown)


def item(view: View, message: Message, server_side: frozenset[str]) -> View:
    """An item of Responses: a provider's own result was the model's text, as JSON, and a screenshot was text."""
    kind = kind_of(message) or "message"
    if kind == "message":
        return chat(view, get(message, "content"))
    if view.answers:
        return _output(view, get(message, "output"))
    if view.calls:
        return View(view.role, view.origin, calls=(replace(view.calls[0], arguments=as_json(_written(message, kind))),))
    if kind in server_side:
        return View(view.role, view.origin, as_json(plain(message)))
    return View(view.role, view.origin, opaque=True)


def _written(message: Message, kind: str) -> Any:
    fields = {"function_call": "arguments", "custom_tool_call": "input", "apply_patch_call": "operation"}
    return _jsonable(get(message, fields.get(kind, "action")))


def _output(view: View, output: Any) -> View:
    if output is None or isinstance(output, str):
        return View(view.role, view.origin, answers=(replace(view.answers[0], text=output or ""),))
    text, shown = content(output if isinstance(output, list) else [output])
    if not shown and (not text or not isinstance(output, list)):
        listed = [_jsonable(part) for part in output] if isinstance(output, list) else _jsonable(output)
        text = as_json(listed)
    answer = Answer(view.answers[0].call_id, text if isinstance(output, list) or not shown else "")
    return View(view.role, view.origin, answers=(answer,), media=shown)


def _jsonable(value: Any) -> Any:
    return value if value is None or isinstance(value, str | dict | list) else plain(value)
