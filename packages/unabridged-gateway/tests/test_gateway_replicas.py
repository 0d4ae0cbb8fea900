"""Two gateways on one Postgres, killed and cut off under load: all is answered, and nothing is lost or mixed."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patience import PATIENCE
from replicas import World, world

KILLS = int(os.environ.get("UNABRIDGED_KILLS", "0"))
"""Replicas that are killed; from a dozen on, more people have more conversations."""
LONG = KILLS > 10


def wait_for(happened: Callable[[], object], world: World) -> None:
    """Wait for it, a minute at most; what went wrong meanwhile is told by who waits for the end."""
    until = time.monotonic() + PATIENCE
    while not happened() and not world.problems:
        assert time.monotonic() < until, "it did not happen in a minute"
        time.sleep(0.02)


def faults(world: World) -> Iterator[None]:
    """Everything that goes wrong, one after the other."""
    chance = random.Random(KILLS)  # noqa: S311 - moments, not secrets
    assert not any(replica.ready() for replica in world.replicas), "there is no database yet"
    world.postgres.start()
    wait_for(lambda: all(replica.ready() for replica in world.replicas), world)
    world.provider.faulty = 0.02
    for number in range(KILLS):
        until = world.provider.served["asked"] + chance.randrange(5, 40)
        wait_for(lambda until=until: world.provider.served["asked"] > until, world)  # type: ignore[misc]
        killed = chance.choice(world.replicas)
        killed.kill()
        yield
        time.sleep(chance.uniform(0, 0.5))
        killed.start()
        if number in {KILLS // 2, KILLS - 2}:
            yield from outage(world)
        yield
    world.provider.faulty = 0


def outage(world: World) -> Iterator[None]:
    """The database goes away until somebody's conversation was too long for its window, and comes back.

    Meanwhile replicas can't know what the other sends: thinking that is bound to it is refused, and left out then.
    """
    assert world.unrecorded or not world.provider.refused, world.provider.refused[:5]
    unrecorded = world.unrecorded
    world.postgres.stop()
    wait_for(lambda: world.unrecorded > unrecorded, world)
    world.postgres.start()
    wait_for(lambda: all(replica.ready() for replica in world.replicas), world)
    yield


@pytest.mark.skipif(not KILLS, reason="it takes minutes, and both cores: make replicas KILLS=24")
def test_replicas_that_are_killed_and_a_database_that_goes_away_lose_and_mix_nothing(tmp_path: Path) -> None:
    with world(tmp_path, talks=3 if LONG else 1) as load:
        load.postgres.stop()
        for replica in load.replicas:
            replica.start()
        load.run(12, faults(load))
        found = load.check()
    said = [
        json.loads(line)
        for replica in load.replicas
        for line in replica.log.read_text().splitlines()
        if line.startswith("{")
    ]
    wrong = [line for line in said if line["level"] == "error"]
    assert not wrong, wrong[:3]
    fails = [line["message"] for line in said if "the archive fails" in line.get("message", "")]
    assert len(fails) <= 2 + 2 * KILLS, "said once until it is well, by each process"
    assert not [line for line in fails if "Check the URL" not in line], "with the remedy"
    print(  # noqa: T201
        dict(found), dict(load.told), dict(load.provider.served), f"slowest {load.slowest:.1f} s,",
        f"thinking refused after an outage, and left out: {len(load.provider.refused)}",
    )  # fmt: skip
    assert found["records"] >= found["conversations"], "each was compacted"
