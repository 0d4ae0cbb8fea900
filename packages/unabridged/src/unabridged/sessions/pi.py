"""pi sessions: entries linked by `id` and `parentId` into a tree, read into Anthropic's format.

pi has roles and blocks of its own (`toolResult`, `toolCall`, `bashExecution`). They are turned into Anthropic messages
for the engine; when the conversation is written back, a message that stays keeps its own entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from unabridged.formats import FORMATS, Anthropic
from unabridged.formats.fields import get
from unabridged.messages import Origin
from unabridged.sessions import base
from unabridged.sessions.base import ClientSession, Entry, MessageMatch, SessionCompaction, SessionFormat
from unabridged.sessions.text import format_current_time, is_new_summary, link_entries

_FORMAT = FORMATS[Anthropic.name]
_CUSTOM_TYPE = "unabridged"
_MESSAGE_TYPES = frozenset({"message", "custom_message", "branch_summary", "compaction"})
_SUMMARY_KINDS = frozenset({"branch_summary", "compaction", "branchSummary", "compactionSummary"})
"""Types of entries, and roles of messages, that are summaries."""
_USAGE_FIELDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_input_tokens",
    "cacheWrite": "cache_creation_input_tokens",
}
_NO_USAGE = {
    "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}  # fmt: skip


def is_own_line(line: Entry) -> bool:
    """Return whether this is a line of pi's."""
    kind = line.get("type")
    return kind == "session" or (kind == "message" and isinstance(line.get("message"), dict))


def is_valid_line(line: Entry) -> bool:
    """Return whether an entry with a message has a role, blocks, and names for its calls."""
    if line["type"] not in {"message", "custom_message"}:
        return line["type"] != "model_change" or isinstance(line.get("modelId") or "", str)
    message = line.get("message") if line["type"] == "message" else line
    if not isinstance(message, dict) or not base.is_valid_content(message.get("content")):
        return False
    content = message.get("content")
    calls = [block for block in content if block["type"] == "toolCall"] if isinstance(content, list) else []
    names = (call.get(key) for call in calls for key in ("id", "name"))
    facts = (message.get("role", ""), message.get("model") or "", *names)
    return isinstance(message.get("usage") or {}, dict) and all(isinstance(fact, str) for fact in facts)


def read(entries: Iterable[Entry]) -> ClientSession:
    """Return the conversation: the entries from the root of the tree to its newest leaf, or what a compaction left."""
    tree, session = list[Entry](), ClientSession()
    for entry in entries:
        kind = entry.get("type")
        if kind == "session":
            tree.append({})  # old compactions name what they kept by its line
            continue
        tree.append(entry if kind in _MESSAGE_TYPES else {"id": entry.get("id"), "parentId": entry.get("parentId")})
        if kind == "model_change":
            session.model = entry.get("modelId") or session.model
        elif kind == "message":
            session.model = (entry.get("message") or {}).get("model") or session.model
    branch = _find_branch(tree)
    unnamed = any(entry.get("type") in _MESSAGE_TYPES and not isinstance(entry.get("id"), str) for entry in tree)
    session.facts = {"leaf": tree[branch[-1]].get("id") if branch else None, "unnamed": unnamed}
    for number in _list_sent_entries(tree, branch):
        _add_entry(session, tree[number])
    return session


def _find_branch(tree: Sequence[Entry]) -> list[int]:
    """Return the numbers of the entries from the root to the newest leaf; in old files without ids, of all."""
    if not tree or tree[-1].get("id") is None:
        return list(range(len(tree)))
    places = {entry["id"]: number for number, entry in enumerate(tree) if isinstance(entry.get("id"), str)}
    branch: list[int] = []
    at: int | None = len(tree) - 1
    while at is not None:
        branch.append(at)
        parent = places.get(str(tree[at].get("parentId")))
        at = parent if parent is not None and parent < at else None
    return branch[::-1]


def _list_sent_entries(tree: Sequence[Entry], branch: Sequence[int]) -> list[int]:
    """Return the entries that the client turns into messages, in its order: summary, what was kept, what came after."""
    kinds = [entry.get("type") for entry in tree]
    compaction = next((n for n in reversed(branch) if kinds[n] == "compaction"), None)
    if compaction is None:
        return [n for n in branch if kinds[n] in _MESSAGE_TYPES]
    name, line = tree[compaction].get("firstKeptEntryId"), tree[compaction].get("firstKeptEntryIndex")
    first = next((n for n in branch if (tree[n].get("id") == name if name else n == line)), compaction)
    after = [n for n in branch if n >= first and kinds[n] in _MESSAGE_TYPES and kinds[n] != "compaction"]
    return [compaction, *after]


def _add_entry(session: ClientSession, entry: Entry) -> None:
    for message, origin in to_anthropic(entry):
        if origin == "tool" and session.ends_in_results():
            session.extend(-1, entry, message["content"])
            continue
        index = session.add(entry, message, None if origin == "tool" else origin)
        usage = (entry.get("message") or {}).get("usage") or {}
        if reported := {name: usage[key] for key, name in _USAGE_FIELDS.items() if key in usage}:
            session.usage[index] = reported


def to_anthropic(entry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Origin | None]]:
    """Yield the message that an entry is sent as, if any, and whose words it is where the role does not say."""
    kind = entry.get("type")
    message = entry if kind in {"custom_message", *_SUMMARY_KINDS} else entry.get("message") or {}
    role, content = message.get("role"), message.get("content")
    if not _SUMMARY_KINDS.isdisjoint({kind, role}):
        yield {"role": "user", "content": str(message.get("summary") or "")}, "summary"
    elif role == "toolResult":
        blocks = list(_to_anthropic_blocks(content))
        result = {"type": "tool_result", "tool_use_id": message.get("toolCallId"), "content": blocks}
        if message.get("isError"):
            result["is_error"] = True
        yield {"role": "user", "content": [result]}, "tool"
    elif role == "bashExecution":
        if not message.get("excludeFromContext"):
            yield {"role": "user", "content": _describe_shell_run(message)}, "host"
    elif role == "assistant":
        if blocks := list(_to_anthropic_blocks(content)):
            yield {"role": "assistant", "content": blocks}, None
    elif content:
        host = kind == "custom_message" or role in {"custom", "hookMessage"}
        body = content if isinstance(content, str) else list(_to_anthropic_blocks(content))
        yield {"role": "user", "content": body}, "host" if host else None


def _to_anthropic_blocks(content: Any) -> Iterator[dict[str, Any]]:
    """Yield pi's blocks as Anthropic's; thinking that was never signed can't be sent and stays in the file."""
    for block in _list_blocks(content):
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


def _describe_shell_run(message: dict[str, Any]) -> str:
    """Return a command that the person ran themselves, in the words in which the model reads of it."""
    end = "cancelled" if message.get("cancelled") else f"exit code {message.get('exitCode')}"
    return f"Ran `{message.get('command')}` ({end})\n```\n{message.get('output') or ''}\n```"


# -- writing ----------------------------------------------------------------------------------------------------------


def append(session: ClientSession, matches: Sequence[MessageMatch], tokens_before: int) -> Iterator[Entry]:
    """Return a compaction; after it every message that stays, unless it can name an entry from which on all of them do.

    Without a summary it is a new branch from the root, which begins with a note.
    """
    leaf = session.facts["leaf"]
    if not matches or not is_new_summary(matches[0], _FORMAT):
        copies = [entry for match in matches for entry in _build_entries(session, match)]
        note = _build_entry("custom") | {"customType": _CUSTOM_TYPE}
        note, *copied = link_entries([note, *copies], "id", "parentId", None)
        return iter([note | {"data": {"leaf": leaf, "copies": [entry["id"] for entry in copied]}}, *copied])
    summary, matches = _FORMAT.read(matches[0].message).text, matches[1:]
    compaction = _build_entry("compaction") | {"summary": summary, "tokensBefore": tokens_before}
    first = _find_first_kept_id(session, matches)
    copies = [] if first else [entry for match in matches for entry in _build_entries(session, match)]
    head, *copied = link_entries([compaction, *copies], "id", "parentId", leaf)
    # Where all is copied it names no entry: nothing before it was kept.
    kept = {"firstKeptEntryId": first or "", "details": {_CUSTOM_TYPE: {"copies": [entry["id"] for entry in copied]}}}
    return iter([head | kept, *copied])


def _find_first_kept_id(session: ClientSession, matches: Sequence[MessageMatch]) -> str | None:
    """Return the id of the entry from which on everything stays as it is; None where there is none."""
    places = [match.index for match in matches if match.is_unchanged]
    if not places or places != list(range(len(session.messages) - len(matches), len(session.messages))):
        return None
    first = session.entries[places[0] or 0][0]
    return first.get("id") if first.get("type") != "compaction" else None


def newest_compaction(entries: Sequence[Entry]) -> SessionCompaction | None:
    """Return the last compaction on the branch, or the note that begins one of ours, with what was copied after it.

    None when what it replaced is not in the file.
    """
    tree = [{} if entry.get("type") == "session" else entry for entry in entries]
    places = {entry["id"]: number for number, entry in enumerate(tree) if isinstance(entry.get("id"), str)}
    compaction = next((n for n in reversed(_find_branch(tree)) if _is_compaction(tree[n])), None)
    if compaction is None:
        return None
    entry = tree[compaction]
    ours = entry.get("data") if entry["type"] == "custom" else get(entry.get("details"), _CUSTOM_TYPE)
    leaf = get(ours, "leaf") if entry["type"] == "custom" else entry.get("parentId")
    listed = get(ours, "copies")
    copies = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    names = [entry["id"], *(name for name in copies if places.get(name, -1) > compaction)]
    if not isinstance(leaf, str) or places.get(leaf, compaction) >= compaction:
        return None
    return SessionCompaction({places[name] for name in names}, dict.fromkeys(names, leaf), "parentId")


def _is_compaction(entry: Entry) -> bool:
    ours = entry.get("type") == "custom" and entry.get("customType") == _CUSTOM_TYPE
    return isinstance(entry.get("id"), str) and (ours or entry.get("type") == "compaction")


def _build_entries(session: ClientSession, match: MessageMatch) -> list[Entry]:
    """Return the entries of a message: its own, where they may be repeated, else new ones."""
    was = session.entries[match.index] if match.index is not None else []
    if match.is_unchanged and all(entry["type"] in {"message", "custom_message"} for entry in was):
        return was
    if match.index in session.origins:
        custom = {"customType": _CUSTOM_TYPE, "content": get(match.message, "content"), "display": True}
        return [_build_entry("custom_message") | custom]
    facts = was[0].get("message") if was else None
    return [_build_entry("message") | {"message": body} for body in _build_message_bodies(session, match, facts or {})]


def _build_message_bodies(session: ClientSession, match: MessageMatch, was: Entry) -> Iterator[Entry]:
    """Yield the text, and each result of a tool, as a message of pi's; a reply keeps the facts of the one it `was`."""
    blocks, role = _list_blocks(get(match.message, "content")), str(get(match.message, "role"))
    stamp = int(datetime.now(UTC).timestamp() * 1000)
    for block in blocks:
        if get(block, "type") == "tool_result":
            call = get(block, "tool_use_id")
            result = {"role": "toolResult", "toolCallId": call, "toolName": _find_tool_name(session, call)}
            said = list(_to_pi_blocks(_list_blocks(get(block, "content"))))
            result |= {"content": said, "isError": bool(get(block, "is_error"))}
            yield result | {"timestamp": stamp}
    body = list(_to_pi_blocks(blocks))  # without results of tools, which are none of its blocks
    if body and role == "assistant":
        stop = "toolUse" if any(block["type"] == "toolCall" for block in body) else "stop"
        facts: Entry = {"api": "anthropic-messages", "provider": "anthropic", "model": session.model or "unknown"}
        facts |= {"usage": _NO_USAGE, "stopReason": stop, "timestamp": stamp}
        yield facts | was | {"role": "assistant", "content": body}
    elif body:
        yield {"role": "user", "content": body, "timestamp": stamp}


def _find_tool_name(session: ClientSession, call_id: str) -> str:
    calls = (call for message in session.messages for call in _FORMAT.read(message).calls)
    return next((call.name for call in calls if call.id == call_id), "unknown")


def _build_entry(kind: str) -> Entry:
    return {"type": kind, "timestamp": format_current_time()}


def _to_pi_blocks(blocks: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield Anthropic's blocks as pi's."""
    for block in blocks:
        kind = get(block, "type")
        if kind == "text":
            yield {"type": "text", "text": get(block, "text")}
        elif kind == "image":
            source = get(block, "source") or {}
            yield {"type": "image", "data": get(source, "data"), "mimeType": get(source, "media_type")}
        elif kind == "tool_use":
            call = {"id": get(block, "id"), "name": get(block, "name"), "arguments": get(block, "input")}
            yield {"type": "toolCall", **call}
        elif kind == "thinking":
            signed = get(block, "signature")
            yield {"type": "thinking", "thinking": get(block, "thinking"), "thinkingSignature": signed}
        elif kind == "redacted_thinking":
            yield {"type": "thinking", "thinking": "", "thinkingSignature": get(block, "data"), "redacted": True}


def _list_blocks(content: Any) -> list[Any]:
    """Return the blocks of a content; a text is one of them."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


SESSION_FORMAT = SessionFormat(Anthropic.name, is_own_line, read, append, newest_compaction, is_valid_line)
