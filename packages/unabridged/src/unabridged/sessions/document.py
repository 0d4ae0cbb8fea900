"""Read and write plain files: a message a line, or one JSON text: a list, or an object with one.

That list is `messages`, Responses' `input` or Gemini's `contents`. A JSON text is written by splicing: everything
outside the list, and every message that stays, keeps its bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from unabridged.formats import FORMATS, Message, detect_message_format, get_format
from unabridged.formats.fields import to_plain_dict
from unabridged.sessions.base import Document, FileStamp, Kind, LineFile, LoadedFile, MessageMatch, SessionFileError
from unabridged.sessions.text import Progress, collect_entries, dump_line, encode_json, read_lines

_SPACE_PATTERN = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_ROLES = frozenset({"system", "developer", "user", "assistant", "model", "tool", "function"})
_SYSTEM_FIELDS = {"input": "instructions", "contents": "systemInstruction"}
"""The field of a request's system prompt, by the name of its list."""
_ITEM_TYPES = frozenset({"message", "reasoning", "item_reference", "compaction", "compaction_summary"})


def is_message(value: Any) -> bool:
    """Return whether this is a message or item of one of the wire formats."""
    if not isinstance(value, dict):
        return False
    if "role" in value:
        return value["role"] in _ROLES
    if "type" not in value:
        return any(format_.claims(value) for format_ in FORMATS.values())
    kind = value["type"]
    return isinstance(kind, str) and (kind in _ITEM_TYPES or kind.endswith(("_call", "_call_output", "_list_tools")))


def detect_wire_format(messages: Sequence[Message], name: str | None, holder: Mapping[str, Any]) -> str:
    """Return the name of the format: the given one, else by the messages, else by what is beside their list."""
    if name is not None:
        return get_format(name).name
    detected = detect_message_format(messages).name
    if detected == "openai-chat":
        # Plain text turns look alike everywhere; what is beside the list distinguishes the formats.
        if any(isinstance(tool, dict) and "input_schema" in tool for tool in holder.get("tools") or ()):
            return "anthropic"
        if "input" in holder and "messages" not in holder:
            return "openai-responses"
    return detected


def find_messages(value: Any) -> tuple[str | None, list[Message]] | None:
    """Return the name of the list and the messages in it; None when `value` is no conversation."""
    if isinstance(value, list):
        return (None, value) if all(is_message(item) for item in value) else None
    if isinstance(value, dict):
        for key in ("messages", "input", "contents"):
            messages = value.get(key)
            if isinstance(messages, list) and all(is_message(item) for item in messages):
                return key, messages
    return None


def load_conversation_line(
    path: Path, stamp: FileStamp, which: int | str | None, format_name: str | None, progress: Progress | None
) -> LoadedFile:
    """Return one conversation of a file that has one on each line, chosen by index from 0 or by its `id`."""
    chosen, count = None, 0
    for line in (line for line in read_lines(path, stamp, progress) if line.value is not None):
        if which is None and chosen is not None:
            raise SessionFileError(
                f"{path} holds more than one conversation: choose one by its index from 0, or by its "
                "id: --which 0 on the command line, which=0 in Python"
            )
        if which in (None, count, line.value.get("id") if isinstance(line.value, dict) else None):
            chosen = line
            if which is not None:
                break
        count += 1
    if chosen is None:
        raise SessionFileError(f"{path} has no conversation {which!r}: it holds {count}, counted from 0")
    document = Document(stamp, chosen.start, chosen.start + len(chosen.raw), None)
    return load_value(path, "jsonl-conversations", chosen.value, document, format_name, line=chosen.number + 1)


def load_value(
    path: Path, kind: Kind, value: Any, document: Document, named: str | None, *, line: int = 0
) -> LoadedFile:
    """Return the conversation that a JSON value is: of a whole file, or of a line of it, counted from 1."""
    if (conversation := find_messages(value)) is None:
        where = f"line {line} of {path}" if line else f"{path}"
        raise SessionFileError(
            f"{where} is not a conversation: expected a list of messages, each with a role or a type, "
            "or an object with such a list as `messages`"
        )
    document.key, messages = conversation
    holder = value if isinstance(value, dict) else {}
    wire, system = detect_wire_format(messages, named, holder), _SYSTEM_FIELDS.get(document.key or "", "system")
    tools, model = holder.get("tools"), holder.get("model")
    return LoadedFile(path, kind, wire, messages, holder.get(system), tools, model, source=document)


def load_jsonl(path: Path, stamp: FileStamp, format_name: str | None, progress: Progress | None) -> LoadedFile:
    """Return the conversation of a file with a message a line; raise for a line that is something else."""
    lines = LineFile(stamp)
    messages: list[Message] = []
    for line in collect_entries(path, progress, lines):
        if not is_message(line.value):
            keys = ", ".join(sorted(line.value)[:5]) or "an empty object"
            where = f"line {line.number + 1} of {path}"
            raise SessionFileError(f"{where} is not a message: expected a role or a type, found {keys}")
        messages.append(line.value)
        lines.spans.append((line.start, line.start + len(line.raw)))
    if any("left alone" in warning for warning in lines.warnings):
        problem = lines.warnings[0].replace(" and was left alone", "")
        raise SessionFileError(f"{path}: {problem}: mend or remove that line")
    wire = detect_wire_format(messages, format_name, {})
    return LoadedFile(path, "jsonl", wire, messages, warnings=tuple(lines.warnings), source=lines)


def write_jsonl(loaded: LoadedFile, lines: LineFile, matches: Sequence[MessageMatch]) -> Iterator[bytes]:
    """Yield a line for each message: its own bytes, where nothing changed."""
    with loaded.path.open("rb") as stream:
        for match in matches:
            if match.index is None or not match.is_unchanged:
                yield dump_line(match.message)
                continue
            start, stop = lines.spans[match.index]
            stream.seek(start)
            yield stream.read(stop - start).rstrip(b"\r\n") + b"\n"


def write_document(loaded: LoadedFile, document: Document, matches: Sequence[MessageMatch]) -> Iterator[bytes]:
    """Yield the file with the list replaced: what stays is copied, what is new is laid out like its neighbours."""
    with loaded.path.open("rb") as stream:
        yield stream.read(document.start)
        raw = stream.read(document.stop - document.start)
        text = raw.decode("utf-8-sig")
        yield raw[: len(raw) - len(text.encode())]  # a byte-order mark, if there was one
        inside, spans = _find_elements(text, document.key)
        for piece in _splice_messages(text, inside, spans, matches, 1 if document.key is None else 2):
            yield encode_json(piece)
        while chunk := stream.read(1 << 20):
            yield chunk


def _splice_messages(
    text: str, inside: slice, spans: Sequence[slice], matches: Sequence[MessageMatch], depth: int
) -> Iterator[str]:
    lead = text[inside.start : spans[0].start] if spans else ""
    between = text[spans[0].stop : spans[1].start] if spans[1:] else "," + (lead or " ")
    margin = lead.rpartition("\n")[2] if "\n" in lead else ""
    step = margin[: max(1, len(margin) // depth)] or None
    yield text[: inside.start] + (lead if matches else "")
    for position, match in enumerate(matches):
        yield between if position else ""
        if match.is_unchanged and match.index is not None:
            yield text[spans[match.index]]
        else:
            new = json.dumps(to_plain_dict(match.message), ensure_ascii=text.isascii(), indent=step)
            yield new.replace("\n", "\n" + margin)
    yield (text[spans[-1].stop : inside.stop] if spans and matches else "") + text[inside.stop :]


def _find_elements(text: str, key: str | None) -> tuple[slice, list[slice]]:
    """Return where the inside of the list is, and each of its elements."""
    start = _skip_space(text, 0)
    if key is not None:  # of several with the same name the last, as parsers do
        start = {name: span.start for name, span in _find_members(text, start)}[key]
    stop = _DECODER.raw_decode(text, start)[1]
    return slice(start + 1, stop - 1), [span for _, span in _find_members(text, start)]


def _find_members(text: str, at: int) -> Iterator[tuple[str | None, slice]]:
    """Yield where each value of the list or object at `at` is; with its name, if it has one."""
    closing = "]" if text[at] == "[" else "}"
    at = _skip_space(text, at + 1)
    while text[at] != closing:
        name = None
        if closing == "}":
            name, at = _DECODER.raw_decode(text, at)
            at = _skip_space(text, _skip_space(text, at) + 1)
        stop = _DECODER.raw_decode(text, at)[1]
        yield name, slice(at, stop)
        at = _skip_space(text, stop)
        at = _skip_space(text, at + 1) if text[at] == "," else at


def _skip_space(text: str, at: int) -> int:
    space = _SPACE_PATTERN.match(text, at)
    return space.end() if space else at
