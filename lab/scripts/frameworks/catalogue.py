"""The frameworks: their names, and the packages that `pip install` needs for each."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import dist
import workspace

EXAMPLES = workspace.ROOT / "examples" / "frameworks"


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework: its name as people write it, and its packages, the one whose version is shown first."""

    title: str
    packages: tuple[str, ...]

    @property
    def shown(self) -> tuple[str, str]:
        """Return the packages whose versions the table shows."""
        return self.packages[0].partition("[")[0], "openai"


FRAMEWORKS = {
    "crewai": Framework("CrewAI", ("crewai",)),
    "litellm": Framework("LiteLLM", ("litellm", "mcp")),  # 1.106 can't call tools without it
    "agent_framework": Framework("Microsoft Agent Framework", ("agent-framework-core", "agent-framework-openai")),
    "llama_index": Framework("LlamaIndex", ("llama-index-core", "llama-index-llms-openai")),
    "agno": Framework("Agno", ("agno", "openai")),
    "haystack": Framework("Haystack", ("haystack-ai",)),
    "autogen": Framework("AutoGen", ("autogen-agentchat", "autogen-ext[openai]")),
    "ag2": Framework("AG2", ("ag2[openai]",)),
    "smolagents": Framework("smolagents", ("smolagents[openai]",)),
}


def program_of(name: str) -> Path:
    """Return the file of the example of this framework."""
    return EXAMPLES / f"{name}_agent.py"


def make_environment(name: str, folder: Path) -> Path:
    """Return the interpreter of the environment with the newest release; one that is there already is used as it is."""
    packages = (*FRAMEWORKS[name].packages, *workspace.project()["dependencies"])
    home, wanted = folder / name, "\n".join(packages)
    stamp = home / ".installed"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(home, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        dist.Environment(home).install(*packages)
        stamp.write_text(wanted, encoding="utf-8")
    return home / "bin" / "python"
