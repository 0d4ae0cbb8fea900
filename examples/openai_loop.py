"""An agent over the OpenAI SDK whose conversation may grow as long as it likes.

Needs `pip install unabridged openai` and OPENAI_API_KEY. Then: python examples/openai_loop.py "What is here?"
"""

import json
import sys
from pathlib import Path
from typing import Any

from openai import OpenAI

from unabridged import Compactor

MODEL = "gpt-5-mini"
SYSTEM = "You answer questions about the files in the current folder. Look before you answer."
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "list_files", "description": "Names in a folder.", "parameters": PATH}},
    {"type": "function", "function": {"name": "read_file", "description": "Text of a file.", "parameters": PATH}},
]


def call(name: str, arguments: str) -> str:
    """Run one tool; what went wrong is an answer, too."""
    try:
        path = Path(json.loads(arguments)["path"])
        return "\n".join(sorted(p.name for p in path.iterdir())) if name == "list_files" else path.read_text()
    except (OSError, ValueError, KeyError) as error:
        return f"error: {error}"


def run(client: OpenAI, compactor: Compactor, messages: list[Any], thread: str) -> list[Any]:
    """Continue until the model answers without calling a tool, and return the conversation."""
    while True:
        fitted = compactor.fit(
            messages, thread=thread, system=SYSTEM, tools=TOOLS
        )  # the same list, until it is too long
        messages = fitted.messages
        prompt = [{"role": "system", "content": SYSTEM}, *messages]
        response = client.chat.completions.create(model=MODEL, messages=prompt, tools=TOOLS)
        compactor.observe(fitted, response.usage)  # what the provider counted makes the next estimate better
        message = response.choices[0].message
        messages = [*messages, message]
        if not message.tool_calls:
            return messages
        for asked in message.tool_calls:
            if asked.type == "function":
                answer = call(asked.function.name, asked.function.arguments)
                messages = [*messages, {"role": "tool", "tool_call_id": asked.id, "content": answer}]


if __name__ == "__main__":
    with Compactor(agent=MODEL) as the_compactor:
        # The same archive, namespace and thread are one conversation: name it as your users know it.
        conversation: list[Any] = [{"role": "user", "content": " ".join(sys.argv[1:]) or "Which files are here?"}]
        print(run(OpenAI(), the_compactor, conversation, thread="files here")[-1].content)
