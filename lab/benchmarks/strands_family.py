"""The fake as a model of Strands'."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from strands.models import Model

from benchmarks.fakes import Fake

_STOPS = {"length": "max_tokens", "refusal": "content_filtered", "tool": "tool_use"}


class FakeModel(Model):
    """The fake as a Strands model, with its window in its configuration."""

    def __init__(self, fake: Fake, window: int) -> None:
        self._fake, self._config = fake, {"context_window_limit": window}

    def update_config(self, **_: Any) -> None:
        """Do nothing: there is nothing to set."""

    def get_config(self) -> dict[str, Any]:
        """Return the configuration, which holds the window."""
        return self._config

    def structured_output(self, *_: Any, **__: Any) -> Any:
        """Raise `NotImplementedError`: no conversation manager calls this."""
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Yield the reply to the text of all messages."""
        said = self._fake("\n".join(_text(block) for message in messages for block in message["content"]))
        yield {"messageStart": {"role": "assistant"}}
        if said.text:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": said.text}}}
            yield {"contentBlockStop": {}}
        for number in range(said.calls):
            yield {"contentBlockStart": {"start": {"toolUse": {"name": "bash", "toolUseId": f"s{number}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": "{}"}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": _STOPS.get(said.stop, "end_turn")}}


def _text(block: Any) -> str:
    if "toolUse" in block:
        return json.dumps(block["toolUse"]["input"], ensure_ascii=False)
    return "\n".join(part.get("text", "") for part in block.get("toolResult", {}).get("content", [block]))
