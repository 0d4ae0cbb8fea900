"""A Strands agent that reads more logs than its window holds, and can be asked again later.

    python examples/strands_agent.py "Which log mentions the pump?"

Needs `pip install "unabridged[strands]"` and, unchanged, access to a model on Bedrock.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.models import BedrockModel
from strands.session.file_session_manager import FileSessionManager

from unabridged.adapters.strands import CompactingConversationManager


@tool
def read_file(path: str) -> str:
    """Read a text file.

    Args:
        path: Where it is.
    """
    return Path(path).read_text(encoding="utf-8")


def build(model: Any, folder: Path, session: str = "logs") -> Agent:
    """Return an agent that keeps its session in files and its archive in the same folder."""
    return Agent(
        model,
        tools=[read_file],
        system_prompt="You answer questions about log files. Never change one.",
        conversation_manager=CompactingConversationManager(archive=f"sqlite:///{folder / 'archive.db'}", recall=True),
        session_manager=FileSessionManager(session, storage_dir=str(folder / "sessions")),
        callback_handler=None,
    )


def ask(agent: Agent, question: str) -> str:
    """Return the agent's answer."""
    return str(agent(question)).strip()


if __name__ == "__main__":
    data = Path.home() / ".logs-agent"
    data.mkdir(exist_ok=True)
    print(ask(build(BedrockModel(), data), " ".join(sys.argv[1:]) or "Which log mentions the pump?"))
