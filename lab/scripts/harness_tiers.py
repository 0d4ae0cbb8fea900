"""Try Pydantic AI's adapter inside pydantic-ai-harness, which pins an older Pydantic AI, in an environment of its own.

    python lab/scripts/harness_tiers.py          # what `make peers` runs

Each check is a sentence: ours as a tier, as the fallback of a strategy that fails, by hand with a focus, and as a
capability of its own on the older version. Exits with 1 when one fails.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import workspace

ROOT = Path(__file__).resolve().parents[2]
INSIDE = "--inside"
HARNESS = "pydantic-ai-harness>=0.62"


def report(number: int) -> str:
    """Read one report."""
    return f"report {number} " + " ".join(f"fact{number}x{j}" for j in range(60))


def reading(steps: int) -> Any:
    """Return a model that reads `steps` reports."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart  # noqa: PLC0415 - of the other environment
    from pydantic_ai.models.function import FunctionModel  # noqa: PLC0415

    def read(messages: list[Any], _: Any) -> Any:
        newest = str(messages[-1].parts[0].content)
        number = int(newest.split()[1]) + 1 if newest.startswith("report ") else 0
        return ModelResponse([ToolCallPart("report", {"number": number}) if number < steps else TextPart("Done.")])

    return FunctionModel(read)


def ours(**keywords: Any) -> Any:
    """Return our capability on an archive in memory."""
    from unabridged.adapters.pydantic_ai import Compaction  # noqa: PLC0415 - in the other environment
    from unabridged.archive.stores.memory import MemoryArchive  # noqa: PLC0415

    return Compaction(**{"window": 6_000, "archive": MemoryArchive(), "model": None, **keywords})


def run_agent(capability: Any, steps: int = 40) -> Any:
    """Run an agent with this capability and return its messages."""
    from pydantic_ai import Agent  # noqa: PLC0415

    agent = Agent(reading(steps), tools=[report], capabilities=[capability])
    result = asyncio.run(agent.run("Never touch pump 7. Read all reports.", conversation_id="t"))
    assert result.output == "Done."  # noqa: S101 - a check
    return result.all_messages()


def assert_whole(own: Any, messages: list[Any], steps: int = 40) -> None:
    """Assert that the first report has left the messages and that all of them come back."""
    assert "fact0x30 " not in str(messages), "nothing was compacted"  # noqa: S101 - a check
    whole = own.replay(messages)
    assert "fact0x30 " in str(whole), "the first report did not come back"  # noqa: S101 - a check
    assert len(whole) == 2 * steps + 2, f"{len(whole)} messages came back"  # noqa: S101 - a check


def check_a_tier_compacts_and_comes_back_exactly() -> None:  # noqa: D103 - its name is its sentence
    from pydantic_ai_harness.compaction import TieredCompaction  # noqa: PLC0415

    own = ours()
    assert_whole(own, run_agent(TieredCompaction(tiers=[own], target_tokens=1_000)))


def check_a_strategy_that_fails_falls_back_on_ours() -> None:  # noqa: D103 - its name is its sentence
    from pydantic_ai_harness.compaction import FallbackCompaction  # noqa: PLC0415

    class Broken:
        async def compact(self, *_: Any) -> list[Any]:
            raise ConnectionError("no route")

    own = ours()
    fallback = FallbackCompaction([Broken(), own], (ConnectionError,), max_tokens=1_000)
    assert_whole(own, run_agent(fallback))


def check_compact_now_hands_the_focus_on() -> None:  # noqa: D103 - its name is its sentence
    from pydantic_ai_harness.compaction import compact_now  # noqa: PLC0415

    asked: list[str] = []

    def write(ask: str) -> str:
        asked.append(ask)
        return "The reports were read one by one, and none of them names a broken pump so far."

    messages = run_agent(ours(window=200_000), 30)
    own = ours(model=write)
    given = {"model": reading(1), "focus": "the pumps in cellar 4", "conversation_id": "t"}
    made = asyncio.run(compact_now(own, messages, **given))
    assert len(made) < len(messages), "nothing was compacted"  # noqa: S101 - a check
    assert "cellar 4" in asked[0], "the focus never reached the summariser"  # noqa: S101 - a check


def check_the_capability_runs_on_the_older_version() -> None:  # noqa: D103 - its name is its sentence
    own = ours(window=2_000)
    assert_whole(own, run_agent(own))


def main() -> int:
    """Run the checks in the other environment; inside it, run them."""
    if INSIDE not in sys.argv:
        sys.path.insert(0, str(ROOT / "lab"))
        from benchmarks.environments import python_of  # noqa: PLC0415 - not on the path before

        python = python_of("pydantic-ai-harness", [HARNESS])
        inside = {**os.environ, "PYTHONPATH": workspace.python_path()}
        return subprocess.run([python, str(Path(__file__)), INSIDE], env=inside, check=False).returncode
    failed = 0
    for name, check in [(n, c) for n, c in globals().items() if n.startswith("check_")]:
        said = name.removeprefix("check_").replace("_", " ")
        try:
            check()
            print(f"ok      {said}")
        except Exception as error:  # noqa: BLE001 - each is told
            failed += 1
            print(f"FAILED  {said}: {type(error).__name__}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
