"""Any session of the SDK's, read as compactions left it: the inner one keeps every item that was ever added."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    OpenAIConversationsSession,
    OpenAIResponsesCompactionSession,
    Session,
    SessionSettings,
    SQLiteSession,
)
from agents.extensions.memory import (
    AdvancedSQLiteSession,
    AsyncSQLiteSession,
    EncryptedSession,
    SQLAlchemySession,
)
from openai import AsyncOpenAI

from doors.openai_agents import OneModel
from openai_agents_case import WINDOW, provider_for, run, scripted, threads, work
from openai_agents_case import working as steps
from unabridged import SettingsError
from unabridged.adapters.openai_agents import CompactingProvider, CompactingSession

KEY = "WQJ8Mxjvl0o6vGx4oBVGQ2d1wLzSxw0V4rcgLZ1BN6s="


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[Session]:
    session = SQLiteSession("s", folder / "s.db")
    yield session
    session.close()


@asynccontextmanager
async def async_sqlite(folder: Path) -> AsyncIterator[Session]:
    session = AsyncSQLiteSession("s", folder / "s.db")
    yield session
    await session.close()


@asynccontextmanager
async def advanced(folder: Path) -> AsyncIterator[Session]:
    session = AdvancedSQLiteSession(session_id="s", db_path=folder / "s.db", create_tables=True)
    yield session
    session.close()


@asynccontextmanager
async def sqlalchemy(folder: Path) -> AsyncIterator[Session]:
    session = SQLAlchemySession.from_url("s", url=f"sqlite+aiosqlite:///{folder / 's.db'}", create_tables=True)
    yield session
    await session.engine.dispose()


@asynccontextmanager
async def encrypted(folder: Path) -> AsyncIterator[Session]:
    async with sqlalchemy(folder) as inner:
        yield EncryptedSession("s", inner, KEY)  # type: ignore[arg-type]


Opening = Callable[[Path], Any]
"""How a kind of session is opened in a folder."""


def item(number: int) -> dict[str, Any]:
    return {"role": "user" if number % 2 == 0 else "assistant", "content": f"turn {number}: " + f"word{number} " * 200}


@pytest.mark.parametrize("opening", [sqlite, async_sqlite, advanced, sqlalchemy, encrypted])
def test_every_kind_of_session_keeps_all_items_and_is_read_as_compactions_left_them(
    opening: Opening, tmp_path: Path
) -> None:
    async def main() -> None:
        provider = CompactingProvider(OneModel(scripted(steps(1))), model=None, window=WINDOW, archive="memory:")
        async with opening(tmp_path) as inner:
            session = CompactingSession(inner, provider)
            items: list[Any] = [item(i) for i in range(12)]
            await session.add_items(items)
            assert await session.get_items() == items
            assert await session.compact()
            shorter = await session.get_items()
            assert len(shorter) < len(items)
            assert shorter[-1] == items[-1]
            await session.add_items([item(12), item(13)])
            assert await session.get_items() == [*shorter, item(12), item(13)]
            assert await inner.get_items() == [*items, item(12), item(13)]
            for limit in (1, 2, len(shorter), 100):
                assert await session.get_items(limit) == [*shorter, item(12), item(13)][-limit:]
            assert await session.get_items(limit=0) == []
            assert await session.pop_item() == item(13)
            assert await session.replay() == [*items, item(12)]
            for _ in range(5):
                await session.pop_item()
            assert await session.get_items() == items[:8], "what was popped stands in a summary"
            await session.clear_session()
            assert await session.get_items() == await inner.get_items() == []
            assert threads(provider) == []
            assert await session.pop_item() is None

    asyncio.run(main())


def test_the_newest_compaction_is_taken_back_in_another_process_too(tmp_path: Path) -> None:
    async def main() -> None:
        def opened() -> CompactingSession:
            provider = CompactingProvider(
                model=None, window=WINDOW, archive=f"sqlite:///{tmp_path / 'a.db'}", agent="gpt-4.1"
            )
            return CompactingSession(SQLiteSession("s", tmp_path / "s.db"), provider)

        items: list[Any] = [item(i) for i in range(12)]
        session = opened()
        await session.add_items(items)
        assert not await session.undo()
        assert await session.compact()
        shorter = await session.get_items()
        session = opened()
        assert await session.get_items() == shorter
        assert await session.undo()
        assert await session.get_items() == items

    asyncio.run(main())


def test_the_inner_sessions_own_limit_bounds_what_is_given_not_what_is_compacted() -> None:
    async def main() -> None:
        provider = CompactingProvider(OneModel(scripted(steps(1))), model=None, window=WINDOW, archive="memory:")
        inner = SQLiteSession("s", session_settings=SessionSettings(limit=1))
        session = CompactingSession(inner, provider)
        await session.add_items([item(i) for i in range(12)])
        assert await session.compact()
        assert await session.get_items() == [item(11)]
        assert len(await session.replay()) == 12
        session.session_settings = None
        given = await session.get_items()
        assert given[-1] == item(11)
        assert 1 < len(given) < 12
        assert session.db_path == ":memory:"

    asyncio.run(main())


def test_until_something_is_compacted_a_limit_is_the_inner_sessions_own() -> None:
    async def main() -> None:
        provider = CompactingProvider(OneModel(scripted(steps(1))), model=None, window=WINDOW, archive="memory:")
        session = CompactingSession(EncryptedSession("s", SQLiteSession("s"), KEY, max_scan_items=3), provider)
        await session.add_items([item(i) for i in range(12)])
        assert await session.get_items(2) == [item(10), item(11)], "twelve items were read, and three may be"
        with pytest.raises(ValueError, match="non-negative"):
            await session.get_items(-1)

    asyncio.run(main())


def test_a_compaction_made_while_sending_is_found_in_what_the_next_run_reads() -> None:
    model = scripted(steps(16))
    provider = provider_for(model)
    session = CompactingSession(inner := SQLiteSession("s"), provider)

    agent = Agent("worker", tools=[work])
    run(agent, "Work through the numbers.", provider, session=session)
    sent = model.calls[-1].input
    read = asyncio.run(session.get_items())
    assert read[: len(sent)] == sent, "what is read begins otherwise than what was sent last"
    assert len(asyncio.run(inner.get_items())) == 34
    run(agent, "And once more.", provider, session=session)
    assert model.calls[17].input[: len(sent)] == sent
    assert len(asyncio.run(inner.get_items())) == 68


def test_what_can_not_work_is_refused_with_the_remedy() -> None:
    provider = provider_for(scripted(steps(1)))
    client = AsyncOpenAI(api_key="none")
    with pytest.raises(SettingsError, match="SQLiteSession"):
        CompactingSession(OpenAIConversationsSession(openai_client=client), provider)
    theirs = OpenAIResponsesCompactionSession("s", SQLiteSession("s"), client=client)
    with pytest.raises(SettingsError, match="underlying_session"):
        CompactingSession(theirs, provider)
    with pytest.raises(SettingsError, match="underlying_session"):
        CompactingSession(EncryptedSession("s", theirs, KEY), provider)
    wrong = EncryptedSession("s", CompactingSession(SQLiteSession("s"), provider), KEY)
    with pytest.raises(SettingsError, match="around the EncryptedSession"):
        asyncio.run(wrong.add_items([item(0)]))  # type: ignore[list-item]
