"""An agent over the Anthropic SDK whose conversation may grow as long as it likes.

Needs `pip install unabridged anthropic` and ANTHROPIC_API_KEY. Then: python examples/anthropic_loop.py "What is here?"
"""

import sys
from pathlib import Path
from typing import Any

from anthropic import Anthropic

from unabridged import Compactor

MODEL = "claude-haiku-5-5"
SYSTEM = "You answer questions about the files in the current folder. Look before you answer."
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS: list[Any] = [
    {"name": "list_files", "description": "Names in a folder.", "input_schema": PATH},
    {"name": "read_file", "description": "Text of a file.", "input_schema": PATH},
]


def call(name: str, arguments: Any) -> dict[str, Any]:
    """Run one tool; what went wrong is an answer, too."""
    try:
        path = Path(arguments["path"])
        return {"content": "\n".join(p.name for p in path.iterdir()) if name == "list_files" else path.read_text()}
    except (OSError, ValueError, KeyError) as error:
        return {"content": str(error), "is_error": True}


def run(client: Anthropic, compactor: Compactor, messages: list[Any], thread: str) -> list[Any]:
    """Continue until the model answers without calling a tool, and return the conversation."""
    while True:
        fitted = compactor.fit(
            messages, thread=thread, system=SYSTEM, tools=TOOLS
        )  # the same list, until it is too long
        messages = fitted.messages
        response = client.messages.create(model=MODEL, max_tokens=4096, system=SYSTEM, messages=messages, tools=TOOLS)
        compactor.observe(fitted, response.usage)  # what the provider counted makes the next estimate better
        messages = [*messages, {"role": "assistant", "content": response.content}]
        asked = [block for block in response.content if block.type == "tool_use"]
        if not asked:
            return messages
        results = [{"type": "tool_result", "tool_use_id": it.id, **call(it.name, it.input)} for it in asked]
        messages = [*messages, {"role": "user", "content": results}]


if __name__ == "__main__":
    with Compactor(agent=MODEL) as the_compactor:
        # The same archive, namespace and thread are one conversation: name it as your users know it.
        conversation: list[Any] = [{"role": "user", "content": " ".join(sys.argv[1:]) or "Which files are here?"}]
        answer = run(Anthropic(), the_compactor, conversation, thread="files here")[-1]["content"]
        print("".join(block.text for block in answer if block.type == "text"))
