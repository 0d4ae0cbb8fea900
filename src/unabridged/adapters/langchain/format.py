"""LangChain messages as a wire format: content blocks of every provider, tool calls, thinking, media.

A chat model translates these messages for its provider, so what a provider refuses of single blocks is that model's
business; what no provider takes (calls and results that don't pair) is checked here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from unabridged.adapters.langchain.blocks import (
    CALLS,
    THINKING,
    as_once_read,
    is_text,
    media_of,
    read_call_block,
    text_of,
    thinking_of,
    with_call_text,
)
from unabridged.adapters.langchain.legal import WIRE
from unabridged.formats.attached import edit_leaves, resets
from unabridged.formats.base import Edit, Message, Slot, Texts, Unreadable, as_json, listed, word
from unabridged.formats.parts import CONTENT, Hands, Parts
from unabridged.messages import Answer, Call, Media, Origin, Reasoning, Role, View

SOURCE = "lc_source"
SUMMARIZATION = "summarization"
"""The mark LangChain's own summaries carry in `additional_kwargs`; ours carry it too."""

_CHAT_ROLES: dict[str, tuple[Role, Origin]] = {
    "system": ("system", "host"),
    "developer": ("system", "host"),
    "assistant": ("assistant", "model"),
    "ai": ("assistant", "model"),
}
_KEPT_THINKING = ("reasoning_content", "reasoning")
"""Where integrations keep a model's thinking beside the content."""

_PLAIN = frozenset({HumanMessage, SystemMessage})


class LangChain:
    """Messages of `langchain_core`. Edited copies keep their id, so that a reducer replaces what they came from."""

    name = "langchain"
    provider = "openai-chat"  # calls and results pair as everywhere; the rest is the chat model's own business
    wire = WIRE
    lone_system = False
    merges_turns = True

    def read(self, message: Message) -> View:
        """What the message says."""
        if not isinstance(message, BaseMessage):
            raise Unreadable("", message, "a message of LangChain's")
        model = isinstance(message, AIMessage)
        parts, calls_in_content = _read_content(message.content, model=model)
        found = parts.content()
        rest: dict[str, Any] = {"media": found.media, "sealed": found.sealed, "unread": found.unread}
        if isinstance(message, ToolMessage):
            answer = Answer(message.tool_call_id, found.every, message.status == "error")
            view = View("tool", "tool", answers=(answer,), **rest)
        elif isinstance(message, FunctionMessage):
            view = View("tool", "tool", answers=(Answer(f"function:{message.name}", found.every),), **rest)
        else:
            role, origin = _role(message)
            view = View(role, origin, found.text, attached=found.attached, **rest)
        if isinstance(message, AIMessage):
            view = replace(view, calls=_calls(message) or calls_in_content, reasoning=_reasoning(message))
            own = [block for block in parts.others if word(block, "type") == "compaction"]
            view = replace(view, opaque=bool(own), resets=any(map(resets, own)))
        return replace(view, older=_as_once_read(view, message.content)) if view.unread else view

    def texts(self, message: Message) -> Texts | None:
        """The texts of a plain message, None for any other."""
        kind, content = type(message), message.content
        if type(content) is not str:
            return None
        if kind is ToolMessage:
            return "", (), (content,)
        beside = message.additional_kwargs
        if kind is not AIMessage:
            return (content, (), ()) if kind in _PLAIN and type(beside) is dict else None
        if message.invalid_tool_calls != [] or (beside != {} and any(map(beside.get, _KEPT_THINKING))):
            return None
        calls: list[str] = []
        for call in message.tool_calls:
            if type(call["name"]) is not str or "id" not in call:
                return None
            calls += (call["name"], as_json(call["args"]))
        return content, tuple(calls), ()

    def claims(self, message: Message) -> bool:
        """Only LangChain has these classes."""
        return isinstance(message, BaseMessage)

    def text(self, role: Literal["user", "assistant"], text: str) -> Message:
        """A new message with just this text, marked as LangChain marks its summaries."""
        marked = {SOURCE: SUMMARIZATION}
        if role == "user":
            return HumanMessage(content=text, additional_kwargs=marked)
        return AIMessage(content=text, additional_kwargs=marked)

    def answer(self, calls: tuple[Call, ...], text: str) -> list[Message]:
        """One tool message, marked as an error, for each call."""
        return [ToolMessage(text, tool_call_id=call.id, name=call.name or None, status="error") for call in calls]

    def edit(self, message: Message, edit: Edit) -> Message:
        """A copy with every piece run through `edit`; the very same object when nothing changed."""
        slot, beside = Slot("text"), Slot("attached")
        if isinstance(message, ToolMessage):
            slot = beside = Slot("answer", message.tool_call_id)
        elif isinstance(message, FunctionMessage):
            slot = beside = Slot("answer", f"function:{message.name}")
        changed: dict[str, Any] = {}
        new_texts: dict[str, str] = {}
        if isinstance(message, AIMessage):
            for key in ("tool_calls", "invalid_tool_calls"):
                calls = getattr(message, key)
                new = [_edit_call(call, edit, new_texts) for call in calls]
                if any(one is not other for one, other in zip(new, calls, strict=True)):
                    changed[key] = new
        hands = Hands(
            lambda text: edit(slot, text), lambda source: edit(Slot("media"), source), lambda text: edit(beside, text)
        )
        content = _edit_content(message.content, hands, new_texts, model=isinstance(message, AIMessage))
        if content is not message.content:
            changed["content"] = content
        if "tool_calls" in changed and "tool_calls" in message.additional_kwargs:
            # The provider's own copy of the calls: some integrations would send it in place of the edited ones.
            changed["additional_kwargs"] = {k: v for k, v in message.additional_kwargs.items() if k != "tool_calls"}
        return message.model_copy(update=changed) if changed else message

    def without_reasoning(self, message: Message) -> Message | None:
        """A copy without its thinking; the same object when it has none; None when nothing would be left."""
        if not isinstance(message, AIMessage) or not _reasoning(message):
            return message
        content: Any = message.content
        if not isinstance(content, str):
            content = [block for block in content if isinstance(block, str) or block.get("type") not in THINKING]
        if not content and not message.tool_calls and not message.invalid_tool_calls:
            return None
        rest = {key: value for key, value in message.additional_kwargs.items() if key not in _KEPT_THINKING}
        return message.model_copy(update={"content": content or "", "additional_kwargs": rest})


FORMAT = LangChain()


def _role(message: BaseMessage) -> tuple[Role, Origin]:
    if isinstance(message, AIMessage):
        return "assistant", "model"
    if isinstance(message, SystemMessage):
        return "system", "host"
    if isinstance(message, ChatMessage):
        return _CHAT_ROLES.get(message.role.lower(), ("user", "person"))
    # A summary another middleware left in the list is not a person's request.
    return "user", "host" if message.additional_kwargs.get(SOURCE) == SUMMARIZATION else "person"


def _read_content(content: Any, *, model: bool) -> tuple[Parts, tuple[Call, ...]]:
    """What the blocks hold, and the calls among them; thoughts are read elsewhere."""
    parts, calls = Parts(), []
    if isinstance(content, str):
        parts.say(content)
        return parts, ()
    for number, block in enumerate(listed(content, "content", CONTENT)):
        if not isinstance(block, str | dict):
            raise Unreadable(f"content[{number}]", block, "a text or a dict")
        if isinstance(block, str):
            parts.say(block)
        elif model and word(block, "type") in CALLS:
            calls.append(read_call_block(block))
        elif is_text(block, model=model):
            parts.say(text_of(block))
        elif not (model and word(block, "type") in THINKING):
            media = media_of(block)
            if media is not None and not block.get("context"):
                parts.media.append(media)
            else:
                parts.attach(block)
    return parts, tuple(calls)


def _as_once_read(view: View, content: Any) -> View:
    """The message as earlier versions read it, whose records are still to be found."""
    read = [as_once_read(block) for block in content if isinstance(block, str) or word(block, "type") not in CALLS]
    text = "\n".join(one for one in read if isinstance(one, str) and one)
    media = tuple(one for one in read if isinstance(one, Media))
    if view.answers:
        return View(view.role, view.origin, answers=(replace(view.answers[0], text=text),), media=media)
    return View(view.role, view.origin, text, view.calls, media=media)


def _calls(message: AIMessage) -> tuple[Call, ...]:
    """All calls, those with arguments that did not parse included: both are answered by a tool message."""
    found = [Call(call["id"] or "", call["name"], as_json(call["args"])) for call in message.tool_calls]
    found += [Call(c["id"] or "", c["name"] or "", c["args"] or "") for c in message.invalid_tool_calls]
    return tuple(found)


def _reasoning(message: AIMessage) -> tuple[Reasoning, ...]:
    found: list[Reasoning] = []
    if not isinstance(message.content, str):
        blocks = [b for b in message.content if isinstance(b, dict) and b.get("type") in THINKING]
        found += [thinking_of(block) for block in blocks]
    for key in _KEPT_THINKING:
        kept = message.additional_kwargs.get(key)
        if isinstance(kept, str) and kept:
            found.append(Reasoning(kept))
        elif isinstance(kept, dict):
            found.append(thinking_of(kept))
    return tuple(found)


def _edit_call(call: Any, edit: Edit, new_texts: dict[str, str]) -> Any:
    valid = isinstance(call["args"], dict)
    old = as_json(call["args"]) if valid else call["args"] or ""
    new = edit(Slot("call", call["id"] or ""), old)
    if new == old:
        return call
    new_texts[call["id"] or ""] = new
    return {**call, "args": as_arguments(new) if valid else new}


def as_arguments(text: str) -> dict[str, Any]:
    """Arguments from their JSON; anything but an object is put into one, since calls take nothing else."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return value if isinstance(value, dict) else {"value": value}


def _edit_content(content: Any, hands: Hands, new_texts: dict[str, str], *, model: bool) -> Any:
    if isinstance(content, str):
        new = hands.text(content) if content else content
        return content if new == content else new
    blocks = [_edit_block(block, hands, new_texts, model=model) for block in content]
    same = all(new is old for new, old in zip(blocks, content, strict=True))
    return content if same else blocks


def _edit_block(block: Any, hands: Hands, new_texts: dict[str, str], *, model: bool) -> Any:
    if isinstance(block, str):
        new = hands.text(block)
        return block if new == block else new
    kind = block.get("type")
    if model and kind in CALLS:
        return with_call_text(block, new_texts)
    if model and (kind in THINKING or kind == "compaction"):
        return block
    if is_text(block, model=model):
        old = text_of(block)
        new = hands.text(old) if old else old
        return block if new == old else {**block, "refusal" if kind == "refusal" else "text": new}
    media = media_of(block)
    if media is not None and (new := hands.media(media.source)) != media.source:
        return {"type": "text", "text": new}
    return block if media is not None and not block.get("context") else edit_leaves(block, hands.attached)
