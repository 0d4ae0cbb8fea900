"""Parts of messages that hold for the whole run, such as system prompts: they outlive the messages that go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from pydantic_ai import messages as kinds
from pydantic_ai.messages import ModelMessage, ModelRequest, SystemPromptPart, ToolAvailabilityDeltaPart
from pydantic_ai.models import ModelRequestParameters

from unabridged.adapters.kit import apply_change, change_between, name_by_identity
from unabridged.adapters.pydantic_ai.parts import PROMPT_KINDS

Messages = Sequence[ModelMessage]

_LOAD_PART_CLASS: Any = getattr(kinds, "CapabilityLoadDeltaPart", None)
HAS_LOAD_PARTS = _LOAD_PART_CLASS is not None
"""New in 2.64: before, nothing but the model's own call says that a capability is loaded, so that call has to stay."""


def find_standing_prompts(messages: Messages) -> list[SystemPromptPart]:
    """Return the system prompts that are beside something else and hold for the rest of the conversation."""
    prompts = ((part, message) for message in messages for part in message.parts if isinstance(part, SystemPromptPart))
    lasting = ((part, message) for part, message in prompts if getattr(part, "scope", "conversation") == "conversation")
    return [part for part, message in lasting if any(one.part_kind not in PROMPT_KINDS for one in message.parts)]


def find_opening_prompts(messages: Messages) -> list[SystemPromptPart]:
    """Return the prompts that the first message opens with: only there a provider takes them for the system's."""
    parts: Any = messages[0].parts if messages else ()
    return list(takewhile(lambda part: isinstance(part, SystemPromptPart), parts))


def drop_repeated_prompts(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Return the messages as they are sent: a prompt that a summary opens with is left out where it came from.

    That message keeps it in the history, as what was said; the copies here are for this request alone.
    """
    opening = find_opening_prompts(messages)
    if not opening or not any(part.part_kind == "compaction" for part in messages[0].parts):
        return messages
    return [messages[0], *(_remove_prompts(message, opening) for message in messages[1:])]


def _remove_prompts(message: ModelMessage, prompts: Sequence[SystemPromptPart]) -> ModelMessage:
    if not isinstance(message, ModelRequest):
        return message
    kept = [part for part in message.parts if not (isinstance(part, SystemPromptPart) and _is_among(part, prompts))]
    return message if len(kept) in {0, len(message.parts)} else replace(message, parts=kept)


def _is_among(prompt: SystemPromptPart, others: Sequence[SystemPromptPart]) -> bool:
    """Return whether it says the same as one of these: a dynamic one is made anew in each run."""
    return any((prompt.content, prompt.dynamic_ref) == (other.content, other.dynamic_ref) for other in others)


def collect_system_texts(messages: Messages, parameters: ModelRequestParameters | None = None) -> list[str]:
    """Return all system texts of a request: instructions, and prompts in messages."""
    parts: Sequence[kinds.InstructionPart] = (parameters.instruction_parts if parameters is not None else None) or ()
    prompts = find_standing_prompts(drop_repeated_prompts(list(messages)))
    texts = [*(part.content for part in parts), *(part.content for part in prompts)]
    return [text for text in texts if text]


def list_offered_tools(parameters: ModelRequestParameters) -> list[dict[str, Any]]:
    """Return what a request offers to the model: functions, outputs, the provider's tools, the form of the answer."""
    offered: list[dict[str, Any]] = [
        {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
        for tool in (*parameters.function_tools, *parameters.output_tools)
    ]
    offered += [{"name": tool.unique_id} for tool in parameters.native_tools]
    if parameters.output_object is not None:
        offered.append({"name": "output", "parameters": parameters.output_object.json_schema})
    return offered


def carry_parts_over(before: Messages, after: Messages, ctx: Any = None) -> list[ModelMessage]:
    """Return the compacted list, whose first new request gets all that must not go with a message.

    System prompts stand for the whole conversation; loaded capabilities and discovered tools are read from the
    messages by the framework, and would be unloaded and hidden with them.
    """
    earlier = set(map(id, before))
    new = complete_parts([message for message in after if id(message) not in earlier])
    carrier = next((message for message in new if isinstance(message, ModelRequest)), None)
    if carrier is None:
        return list(after)
    opening = find_opening_prompts(before) if carrier is after[0] else []
    standing = [*find_standing_prompts(after), *opening]
    lost = [part for part in find_standing_prompts(before) if not _is_among(part, standing)]
    prompts = [part for part in [*opening, *lost] if not _is_among(part, find_opening_prompts([carrier]))]
    notes = [part for part in _build_notes(ctx) if part not in carrier.parts]
    if prompts or notes:  # ours alone until now: changed in place, it is still the message that the engine knows
        carrier.parts = [*prompts, *carrier.parts, *notes]
    return list(after)


def _build_notes(ctx: Any) -> list[Any]:
    loaded = sorted(getattr(ctx, "loaded_capability_ids", None) or ())
    tools = sorted(getattr(ctx, "discovered_tool_names", None) or ())
    notes: list[Any] = [_LOAD_PART_CLASS(loaded=loaded)] if loaded and HAS_LOAD_PARTS else []
    return [*notes, *([ToolAvailabilityDeltaPart(tools_added=tools)] if tools else [])]


def loads_capability(message: ModelMessage) -> bool:
    """Return whether a call in the message loads a capability, or answers such a call."""
    return any(getattr(part, "tool_name", None) == "load_capability" for part in message.parts)


def complete_parts(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Return the messages, with what the framework's constructors set beside fields: the archive runs none of them."""
    for part in [part for message in messages for part in message.parts]:
        if part.part_kind in {"tool-call", "builtin-tool-call"} and not hasattr(part, "otel_metadata"):
            part.otel_metadata = None
    return messages


def update_history(history: list[ModelMessage], before: Messages, after: Messages) -> None:
    """Update the run's history after a compaction of the request; what only the history has stays in it."""
    if (change := change_between(before, after, name_by_identity)) is not None:
        history[:] = apply_change(history, change, name_by_identity)
