"""Deep Agents' SummarizationMiddleware with the defaults of `create_deep_agent`."""

# requirements: deepagents

from __future__ import annotations

import tempfile
from typing import Any

from deepagents.backends import FilesystemBackend
from deepagents.middleware import summarization as theirs
from langchain.agents.middleware.types import ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, SystemMessage
from langgraph.graph.message import add_messages

from benchmarks.harness import KEEPS, Arm, Fit, Given, Message, serve
from benchmarks.langchain_family import FakeChat, Wire


def middleware(given: Given) -> Fit:
    """Return a `Fit` that leaves the state whole; the middleware changes only the request."""
    chat = FakeChat(fake=given.model, profile={"max_input_tokens": given.window})
    options: dict[str, Any] = {"trim_tokens_to_summarize": None, **theirs.compute_summarization_defaults(chat)}
    if share := given.settings.get("keep"):
        options["keep"] = ("fraction", share)
    backend = FilesystemBackend(root_dir=tempfile.mkdtemp(), virtual_mode=True)
    summarization = theirs.SummarizationMiddleware(chat, backend=backend, **options)
    wire = Wire()
    state: dict[str, Any] = {"messages": [], "system": None}
    given.originals = lambda: wire.give([*filter(None, [state["system"]]), *state["messages"]])

    def fit(new: list[Message], usage: int | None) -> list[Message]:
        sent: list[Any] = []

        def handler(request: ModelRequest) -> ModelResponse:
            sent[:] = [*([request.system_message] if request.system_message else []), *request.messages]
            return ModelResponse(result=[AIMessage("ok")])

        for message in wire.take(new, usage):
            if isinstance(message, SystemMessage) and not state["messages"] and state["system"] is None:
                state["system"] = message
            else:
                state["messages"].append(message)
        given_now = {"messages": list(state["messages"]), "system_message": state["system"], "state": state}
        with given.clock:
            response = summarization.wrap_model_call(ModelRequest(model=chat, **given_now), handler)
        if isinstance(response, ExtendedModelResponse) and response.command:
            update = dict(response.command.update or {})
            state["messages"] = add_messages(state["messages"], update.pop("messages", []))
            state.update(update)
        return wire.give(sent)

    return fit


if __name__ == "__main__":
    serve({"Deep Agents": Arm(middleware, grid=KEEPS)})
