"""The door of sync loops over LiteLLM: `litellm.completion`, with our callback around it."""

from __future__ import annotations

from typing import Any

import litellm

from doors.litellm import LiteLLMDoor, LiteLLMSession


class CompletionSession(LiteLLMSession):
    """A loop whose list holds LiteLLM's own `Message` objects."""

    def _kept(self, message: Any) -> Any:
        return message

    def _complete(self, asked: dict[str, Any]) -> Any:
        complete = self.client.around(litellm.completion)
        if self._about["streaming"]:
            return self._join(list(complete(**asked, stream=True)))
        return complete(**asked).choices[0].message


class CompletionDoor(LiteLLMDoor):
    """A program that calls what `around` returned."""

    name = "litellm-completion"
    session = CompletionSession


DOOR = CompletionDoor()
