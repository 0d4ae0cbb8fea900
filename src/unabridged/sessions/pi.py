"""pi sessions: entries linked by `id` and `parentId` into a tree, read into Anthropic's format.

pi has roles and blocks of its own (`toolResult`, `toolCall`, `bashExecution`). They are turned into Anthropic messages
for the engine; on the way back, a message that stays is its own line again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unabridged.messages import Origin
from unabridged.sessions.loaded import FREE, PAST, Lines, Loaded, Reported, Stamp
from unabridged.sessions.text import Progress, collect, line_value

_SPOKEN = frozenset({"message", "custom_message", "branch_summary", "compaction"})
_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_input_tokens",
    "cacheWrite": "cache_creation_input_tokens",
}


@dataclass(slots=True)
class _Map:
    """What pass one learns about the entries, without keeping what they say."""

    entries: list[int] = field(default_factory=list)
    spoken: set[int] = field(default_factory=set)
    places: dict[str, int] = field(default_factory=dict)
    compactions: dict[int, tuple[str | None, int | None]] = field(default_factory=dict)
    """First kept entry of each compaction: by id, or by line in old files."""
    model: str | None = None


def load_pi(path: Path, stamp: Stamp, progress: Progress | None) -> Loaded:
    """Read the session in two passes: the tree, then the entries from its newest leaf back to the root."""
    lines, warnings, known = Lines(stamp), list[str](), _Map()
    for line in collect(path, stamp, progress, lines, warnings):
        _note(line.number, line.value, lines, known)
    while len(lines.ids) < len(lines):
        lines.ids.append(None)
        lines.parents.append(None)
    branch = _branch(lines, known)
    lines.path = frozenset(branch)
    compaction = next((n for n in reversed(branch) if n in known.compactions), None)
    order = _sent(known, branch, compaction)
    loaded = _assemble(path, lines, order, known.model, warnings)
    _own(lines, known, loaded.lines, compaction)
    return loaded


def _note(number: int, entry: dict[str, Any], lines: Lines, known: _Map) -> None:
    while len(lines.ids) < number:
        lines.ids.append(None)
        lines.parents.append(None)
    kind, own, parent = entry.get("type"), entry.get("id"), entry.get("parentId")
    header = kind == "session"
    lines.ids.append(own if isinstance(own, str) and not header else None)
    lines.parents.append(parent if isinstance(parent, str) and not header else None)
    if header:
        return
    known.entries.append(number)
    if isinstance(own, str):
        known.places[own] = number
    if kind in _SPOKEN:
        known.spoken.add(number)
    if kind == "compaction":
        known.compactions[number] = (entry.get("firstKeptEntryId"), entry.get("firstKeptEntryIndex"))
    elif kind == "model_change":
        known.model = entry.get("modelId") or known.model
    elif kind == "message":
        known.model = (entry.get("message") or {}).get("model") or known.model


def _branch(lines: Lines, known: _Map) -> list[int]:
    """Entries from the root to the newest leaf; in old files without ids, all of them."""
    if not known.entries or lines.ids[known.entries[-1]] is None:
        return known.entries
    branch: list[int] = []
    at: int | None = known.entries[-1]
    while at is not None:
        branch.append(at)
        found = known.places.get(lines.parents[at] or "")
        at = found if found is not None and found < at else None
    return branch[::-1]


def _sent(known: _Map, branch: list[int], compaction: int | None) -> list[int]:
    """The entries that the client turns into messages, in its order: summary, what was kept, what came after."""
    if compaction is None:
        return [number for number in branch if number in known.spoken]
    name, line = known.compactions[compaction]
    first = known.places.get(name) if name else line
    kept = [n for n in branch if first is not None and first <= n < compaction]
    after = [n for n in branch if n > compaction]
    return [compaction, *(n for n in (*kept, *after) if n in known.spoken and n not in known.compactions)]


def _assemble(path: Path, lines: Lines, order: list[int], model: str | None, warnings: list[str]) -> Loaded:
    """Pass two: the messages, each with its lines."""
    messages: list[dict[str, Any]] = []
    numbers: list[list[int]] = []
    origins: dict[int, Origin] = {}
    usage: list[Reported] = []
    with path.open("rb") as stream:
        for number in order:
            entry = line_value(stream, lines, number)
            for message, origin in to_anthropic(entry):
                if origin == "tool" and messages and _is_results(messages[-1]):
                    messages[-1]["content"] = [*messages[-1]["content"], *message["content"]]
                    numbers[-1].append(number)
                    continue
                if origin == "host":
                    origins[len(messages)] = origin
                if reported := _usage(entry):
                    usage.append(Reported(len(messages), reported))
                messages.append(message)
                numbers.append([number])
    return Loaded(
        path=path,
        kind="pi",
        format="anthropic",
        messages=list(messages),
        model=model,
        usage=tuple(usage),
        lines=tuple(tuple(where) for where in numbers),
        origins=origins,
        warnings=tuple(warnings),
        source=lines,
    )


def _own(lines: Lines, known: _Map, numbers: Sequence[Sequence[int]], compaction: int | None) -> None:
    """Say whose every line is: settings and labels stay, an entry that is not sent goes with the one in front."""
    for index, where in enumerate(numbers):
        for number in where:
            lines.owners[number] = index
    sent = [number for where in numbers for number in where]
    first, owner = min(sent, default=0), FREE
    for number in sorted(known.spoken):
        if lines.owners[number] >= 0:
            owner = lines.owners[number] if number != compaction else owner
        else:
            past = compaction is not None and (number < first or number in known.compactions)
            lines.owners[number] = PAST if past else owner
    if compaction is not None:
        lines.summaries = frozenset({0})
    if compaction is not None and len(numbers) > 1:
        after = [index for index, where in enumerate(numbers) if where[0] > compaction]
        # In the file the summary stands behind what it kept; linked in the order of sending, both joints are new.
        lines.seams = frozenset({1, *after[:1]})


def _is_results(message: dict[str, Any]) -> bool:
    content = message["content"]
    return message["role"] == "user" and isinstance(content, list) and content[0].get("type") == "tool_result"


def _usage(entry: dict[str, Any]) -> dict[str, Any]:
    usage = (entry.get("message") or {}).get("usage") or {}
    return {name: usage[key] for key, name in _USAGE.items() if key in usage}


def to_anthropic(entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Origin | None]]:
    """The message that an entry is sent as, and whose words it is when it is not plain from the role. Or none."""
    kind = entry.get("type")
    if kind in {"compaction", "branch_summary"}:
        yield {"role": "user", "content": str(entry.get("summary") or "")}, "host"
        return
    message = entry if kind == "custom_message" else entry.get("message") or {}
    role, content = message.get("role"), message.get("content")
    if role == "toolResult":
        result = {"type": "tool_result", "tool_use_id": message.get("toolCallId"), "content": list(_blocks(content))}
        if message.get("isError"):
            result["is_error"] = True
        yield {"role": "user", "content": [result]}, "tool"
    elif role == "bashExecution":
        if not message.get("excludeFromContext"):
            yield {"role": "user", "content": _shell(message)}, "host"
    elif role in {"compactionSummary", "branchSummary"}:
        yield {"role": "user", "content": str(message.get("summary") or "")}, "host"
    elif role == "assistant":
        if blocks := list(_blocks(content)):
            yield {"role": "assistant", "content": blocks}, None
    elif content:
        host = kind == "custom_message" or role in {"custom", "hookMessage"}
        said = content if isinstance(content, str) else list(_blocks(content))
        yield {"role": "user", "content": said}, "host" if host else None


def _blocks(content: Any) -> Iterator[dict[str, Any]]:
    """Its blocks as Anthropic's; thinking that was never signed can't be sent and stays in the file."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}
        return
    for block in content or ():
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            yield {"type": "text", "text": block["text"]}
        elif kind == "image":
            source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
            yield {"type": "image", "source": source}
        elif kind == "toolCall":
            yield {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block.get("arguments") or {}}
        elif kind == "thinking" and block.get("thinkingSignature"):
            if block.get("redacted"):
                yield {"type": "redacted_thinking", "data": block["thinkingSignature"]}
            else:
                signature = block["thinkingSignature"]
                yield {"type": "thinking", "thinking": block.get("thinking") or "", "signature": signature}


def _shell(message: dict[str, Any]) -> str:
    """A command that the person ran themselves, as the model is told of it."""
    ended = "cancelled" if message.get("cancelled") else f"exit code {message.get('exitCode')}"
    return f"Ran `{message.get('command')}` ({ended})\n```\n{message.get('output') or ''}\n```"
