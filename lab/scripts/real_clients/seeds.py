"""Recorded conversations as session files of each client, so that the real one can be asked to go on with them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Line = dict[str, Any]
TIME = "2026-11-01T09:00:00.000Z"
_SUMMARY = "This session is being continued from a previous conversation"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A conversation up to a real compaction, the summary that was written then, and what followed."""

    name: str
    messages: list[Line]
    summary: str
    post: list[Line]
    tokens: int
    """What the conversation took when it was compacted."""

    @property
    def prompt(self) -> str:
        """Return the next prompt of the person: their last words, if nothing answered them yet."""
        last = self.messages[-1]
        texts = [block["text"] for block in _blocks(last) if block["type"] == "text"]
        return "\n".join(texts) if last["role"] == "user" and texts else "Please continue."

    @property
    def history(self) -> list[Line]:
        """Return the messages before the prompt."""
        return self.messages if self.prompt == "Please continue." else self.messages[:-1]

    @property
    def reply(self) -> str:
        """Return the summary as the model wrote it: without the client's frame, its two parts in tags again."""
        body = self.summary.partition("Analysis:\n")[2] or self.summary
        analysis, found, summary = body.partition("\nSummary:\n")
        if not found:
            return f"<summary>\n{body}\n</summary>"
        return f"<analysis>\n{analysis}\n</analysis>\n\n<summary>\n{summary}\n</summary>"


def read_recorded(path: Path) -> Iterator[Recorded]:
    """Yield every recorded compaction of a file, one JSON object on each line."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            kept = json.loads(line)
            tokens = int(kept["meta"]["preTokens"])
            yield Recorded(kept["id"], kept["messages"], kept["summary"], kept["post"], tokens)


def made_up(rounds: int = 40) -> Recorded:
    """Generate a conversation, for those without recorded ones: a request, and many readings."""
    messages: list[Line] = [{"role": "user", "content": "Check every tide station. Never edit anything under vendor/."}]
    for number in range(rounds):
        call = {"type": "tool_use", "id": f"toolu_{number:04}", "name": "Bash", "input": {"command": f"tide {number}"}}
        levels = "\n".join(f"station {number} level {hour} cm" for hour in range(300))
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number:04}", "content": levels}
        said = {"type": "text", "text": f"Reading station {number}."}
        messages += [{"role": "assistant", "content": [said, call]}, {"role": "user", "content": [result]}]
    return Recorded("made-up", messages, "Stations were read.", [], 150_000)


def _blocks(message: Line) -> list[Line]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _write(path: Path, lines: Iterator[Line]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    path.chmod(0o600)
    return path


def seed_claude_code(home: Path, project: Path, id_: str, recorded: Recorded) -> Path:
    """Write the conversation as a session of Claude Code: one block of a reply on each line, linked by uuid."""
    folder = "".join(letter if letter.isalnum() else "-" for letter in str(project))
    facts = {"isSidechain": False, "userType": "external", "cwd": str(project), "sessionId": id_, "version": "2.1.325"}

    def lines() -> Iterator[Line]:
        parent = None
        for message in recorded.history:
            name, blocks = f"msg_{uuid.uuid4().hex[:24]}", _blocks(message)
            for part in [[block] for block in blocks] if message["role"] == "assistant" else [blocks]:
                own = str(uuid.uuid4())
                line = facts | {"parentUuid": parent, "uuid": own, "timestamp": TIME, "type": message["role"]}
                body: Line = {"role": message["role"], "content": part}
                if message["role"] == "assistant":
                    usage = {"input_tokens": recorded.tokens, "output_tokens": 1}
                    body |= {"id": name, "type": "message", "model": "claude-opus-4-5", "usage": usage}
                    body |= {"stop_reason": None, "stop_sequence": None}
                elif part[0].get("text", "").startswith(_SUMMARY):
                    line |= {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
                yield line | {"message": body}
                parent = own

    return _write(home / ".claude" / "projects" / folder / f"{id_}.jsonl", lines())


def seed_codex(home: Path, project: Path, id_: str, recorded: Recorded) -> Path:
    """Write the conversation as a session of Codex: items of the Responses API."""

    def items() -> Iterator[Line]:
        for message in recorded.history:
            for block in _blocks(message):
                yield from _items(message["role"], block)

    def lines() -> Iterator[Line]:
        meta = {"id": id_, "timestamp": TIME, "cwd": str(project), "originator": "codex_exec", "cli_version": "0.166.0"}
        yield {"type": "session_meta", "payload": meta | {"source": "exec", "model_provider": "loopback"}}
        for item in items():
            yield {"type": "response_item", "payload": item}
            if item["type"] == "message" and item["role"] == "user":
                said = {"type": "user_message", "message": item["content"][0]["text"], "images": []}
                yield {"type": "event_msg", "payload": said}
        usage = {"input_tokens": recorded.tokens, "cached_input_tokens": 0, "output_tokens": 1}
        usage |= {"reasoning_output_tokens": 0, "total_tokens": recorded.tokens + 1}
        info = {"total_token_usage": usage, "last_token_usage": usage, "model_context_window": 200_000}
        yield {"type": "event_msg", "payload": {"type": "token_count", "info": info, "rate_limits": None}}

    path = home / ".codex" / "sessions" / "2026" / "11" / "01" / f"rollout-2026-11-01T09-00-00-{id_}.jsonl"
    return _write(path, ({"timestamp": TIME} | line for line in lines()))


def _items(role: str, block: Line) -> Iterator[Line]:
    if block["type"] == "text":
        kind = "output_text" if role == "assistant" else "input_text"
        yield {"type": "message", "role": role, "content": [{"type": kind, "text": block["text"]}]}
    elif block["type"] == "tool_use":
        arguments = json.dumps(block["input"])
        yield {"type": "function_call", "name": block["name"], "arguments": arguments, "call_id": block["id"]}
    elif block["type"] == "tool_result":
        yield {"type": "function_call_output", "call_id": block["tool_use_id"], "output": result_text(block)}


def seed_pi(home: Path, project: Path, id_: str, recorded: Recorded) -> Path:
    """Write the conversation as a session of pi: entries linked by id."""

    def messages() -> Iterator[Line]:
        names: dict[str, str] = {}
        for message in recorded.history:
            blocks = _blocks(message)
            if message["role"] == "assistant":
                names |= {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
                yield _pi_reply(blocks, recorded.tokens)
                continue
            for block in blocks:
                if block["type"] == "tool_result":
                    answered = {"toolCallId": block["tool_use_id"], "toolName": names.get(block["tool_use_id"], "tool")}
                    content = [{"type": "text", "text": result_text(block)}]
                    yield {"role": "toolResult", "content": content, "isError": bool(block.get("is_error"))} | answered
            texts = [{"type": "text", "text": block["text"]} for block in blocks if block["type"] == "text"]
            if texts:
                yield {"role": "user", "content": texts}

    def lines() -> Iterator[Line]:
        yield {"type": "session", "version": 3, "id": id_, "timestamp": TIME, "cwd": str(project)}
        parent = None
        for number, message in enumerate(messages()):
            own = f"{number:08x}"
            entry = {"type": "message", "id": own, "parentId": parent, "timestamp": TIME}
            yield entry | {"message": message | {"timestamp": 1761987600000 + number}}
            parent = own

    folder = f"--{str(project).strip('/').replace('/', '-')}--"
    return _write(home / ".pi" / "agent" / "sessions" / folder / f"2026-11-01T09-00-00-000Z_{id_}.jsonl", lines())


def _pi_reply(blocks: list[Line], tokens: int) -> Line:
    content: list[Line] = []
    for block in blocks:
        if block["type"] == "text":
            content.append({"type": "text", "text": block["text"]})
        elif block["type"] == "thinking":
            thought = {"thinking": block["thinking"], "thinkingSignature": block.get("signature", "")}
            content.append({"type": "thinking"} | thought)
        elif block["type"] == "tool_use":
            content.append({"type": "toolCall", "id": block["id"], "name": block["name"], "arguments": block["input"]})
    cost = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
    usage = {"input": tokens, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": tokens + 1, "cost": cost}
    called = any(part["type"] == "toolCall" for part in content)
    reply = {"role": "assistant", "content": content, "usage": usage, "stopReason": "toolUse" if called else "stop"}
    return reply | {"api": "anthropic-messages", "provider": "loopback", "model": "loopback-model"}


def result_text(block: Line) -> str:
    """Return a tool's result as text."""
    content = block.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or f"[{part['type']}]") for part in content)
