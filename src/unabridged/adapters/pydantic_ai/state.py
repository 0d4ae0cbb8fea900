"""What a run keeps in its messages besides what was said, and how that outlives the messages that go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai import messages as kinds
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    SystemPromptPart,
    ToolAvailabilityDeltaPart,
)
from pydantic_ai.models import ModelRequestParameters

from unabridged.adapters.kit import change_between, follow_change, identity
from unabridged.adapters.pydantic_ai.parts import NOTES

_LOADS: Any = getattr(kinds, "CapabilityLoadDeltaPart", None)
"""New in 2.66: before, only a model's own call loads a capability."""


def standing_prompts(messages: Sequence[ModelMessage]) -> list[SystemPromptPart]:
    """The system prompts that stand beside something else, and for the rest of the conversation."""
    return [
        part
        for message in messages
        if any(part.part_kind not in NOTES | {"system-prompt"} for part in message.parts)
        for part in message.parts
        if isinstance(part, SystemPromptPart) and getattr(part, "scope", "conversation") == "conversation"
    ]


def system_of(messages: Sequence[ModelMessage], parameters: ModelRequestParameters | None = None) -> list[str]:
    """All that a request says in the system's place: instructions, and prompts that stand in messages."""
    parts: Sequence[InstructionPart] = (parameters.instruction_parts if parameters is not None else None) or ()
    texts = [*(part.content for part in parts), *(part.content for part in standing_prompts(messages))]
    return [text for text in texts if text]


def tools_of(parameters: ModelRequestParameters) -> list[dict[str, Any]]:
    """What a request offers to the model: functions, outputs, the provider's own tools, and the form of the answer."""
    defined = [*parameters.function_tools, *parameters.output_tools]
    offered: list[dict[str, Any]] = [
        {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters_json_schema}
        for tool in defined
    ]
    offered += [{"name": tool.unique_id} for tool in parameters.native_tools]
    if parameters.output_object is not None:
        offered.append({"name": "output", "parameters": parameters.output_object.json_schema})
    return offered


def carry_on(before: Sequence[ModelMessage], after: Sequence[ModelMessage], ctx: Any = None) -> list[ModelMessage]:
    """The compacted list, whose first new request has all that must not go with a message.

    System prompts stand for the whole conversation; loaded capabilities and discovered tools are read from the
    messages by the framework, and would be unloaded and hidden with them.
    """
    known = set(map(id, before))
    made = [message for message in after if id(message) not in known]
    place = next((message for message in made if isinstance(message, ModelRequest)), None)
    for message in made:
        _complete(message)
    if place is None:
        return list(after)
    stands = standing_prompts(after)
    prompts = [part for part in standing_prompts(before) if part not in stands]
    notes = [part for part in _notes_of(ctx) if part not in place.parts]
    if prompts or notes:  # ours alone until now: changed in place, it is still the message that the engine knows
        place.parts = [*prompts, *place.parts, *notes]
    return list(after)


def _notes_of(ctx: Any) -> list[Any]:
    loaded = sorted(getattr(ctx, "loaded_capability_ids", None) or ())
    found = sorted(getattr(ctx, "discovered_tool_names", None) or ())
    notes: list[Any] = [_LOADS(loaded=loaded)] if loaded and _LOADS is not None else []
    return [*notes, *([ToolAvailabilityDeltaPart(tools_added=found)] if found else [])]


def completed(messages: list[ModelMessage]) -> list[ModelMessage]:
    """The messages, with those made from the archive as whole as the framework makes them."""
    for message in messages:
        _complete(message)
    return messages


def _complete(message: ModelMessage) -> None:
    """What the framework's constructor sets beside the fields, and the archive runs no constructor."""
    for part in message.parts:
        if part.part_kind in {"tool-call", "builtin-tool-call"} and not hasattr(part, "otel_metadata"):
            part.otel_metadata = None


def follow(history: list[ModelMessage], before: Sequence[ModelMessage], after: Sequence[ModelMessage]) -> None:
    """Let the run's history follow a compaction of the request, with all that only the history has."""
    if (change := change_between(before, after, identity)) is not None:
        history[:] = follow_change(history, change, identity)
