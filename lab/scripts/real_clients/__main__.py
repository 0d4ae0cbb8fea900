"""`make clients`: download the real clients, run them on loopback, and print the checks."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import workspace
from real_clients import gateway_only
from real_clients.below_trigger import stay_below
from real_clients.clients import DRIVERS, Driver, Place
from real_clients.faults import go_wrong
from real_clients.grown import grow
from real_clients.kept import keep_all, share_folder
from real_clients.malformed import go_malformed
from real_clients.packages import install
from real_clients.plugin import COMMANDS, plug_in
from real_clients.record import record, recordable
from real_clients.recorded import play
from real_clients.report import PAGE, code_digest, keep, page, read_kept, say, say_outcome
from real_clients.resumed import resume
from real_clients.sdk import conforms
from real_clients.seeds import Recorded, made_up, read_recorded
from real_clients.through_gateway import NATIVE_ROUTES, ROUTES, go_through

SCENES = ("grown", "kept", "plugin", "resumed", "faults", "gateway", "native", "below", "recorded", "sdk", "record")
TAKEN = SCENES[:-1]
"""What is done unless something is named: all but writing fixtures."""


def main() -> int:
    """Do what was asked; 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="make clients", description=__doc__)
    parser.add_argument("what", nargs="*", choices=[*SCENES, []], help="scenes; all but `record` if none is named")
    parser.add_argument(
        "--folder", type=Path, default=workspace.cache_folder("clients"), help="where the clients are, or go"
    )
    parser.add_argument("--data", type=Path, help="recorded compactions, one JSON object a line")
    names = [*DRIVERS, *gateway_only.DRIVERS]
    parser.add_argument("--client", choices=names, action="append", help="only this one; may be repeated")
    chosen = parser.parse_args()
    scenes = chosen.what or TAKEN
    commands = install(chosen.folder) if {*scenes} - {"sdk"} else {}  # the SDK brings its own
    named = chosen.client or names
    drivers, others = ([known[name] for name in named if name in known] for known in (DRIVERS, gateway_only.DRIVERS))
    sessions = list(read_recorded(chosen.data)) if chosen.data else []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as homes:  # what hooks started may still write there
        new_place = _places(Path(homes), chosen.folder, commands)
        wrong = sum(_check(driver, new_place, scenes, sessions) for driver in drivers)
        if "gateway" in scenes:
            for driver in others:
                place = gateway_only.place_for(driver, Path(homes) / driver.name, chosen.folder)
                wrong += say(f"{driver.name}, through the gateway", go_through(driver, place))
            wrong += say("malformed requests to the gateway", go_malformed())
        if "kept" in scenes and {"claude-code", "codex"} <= {driver.name for driver in drivers}:
            wrong += say("two clients in one folder", share_folder(new_place))
        if "record" in scenes:
            for driver in recordable():
                record(driver, new_place(driver))
        if "recorded" in scenes and sessions:
            wrong += _recorded(drivers, new_place, sessions, chosen.folder / f"outcomes-{code_digest()}.json")
        elif "recorded" in scenes:
            print("\nno recorded compactions: name a file with --data, or CLIENTS_DATA=")
        if "sdk" in scenes:
            wrong += say("Claude Agent SDK", conforms(chosen.folder, Path(homes)))
    print(f"\n{wrong} of these do not hold" if wrong else "\nall of this holds")
    return min(wrong, 1)


def _places(homes: Path, folder: Path, commands: dict[str, Path]) -> Callable[[Driver], Place]:
    """Return a function that makes a new home folder for a client each time."""
    numbers: Iterator[int] = iter(range(10_000))
    return lambda driver: Place(homes / f"{driver.name}-{next(numbers)}", folder, commands[driver.name])


def _check(
    driver: Driver, new_place: Callable[[Driver], Place], scenes: Sequence[str], sessions: Sequence[Recorded]
) -> int:
    """Run the scenes that are checked; how much did not hold."""
    wrong = 0
    if "grown" in scenes:
        wrong += say(f"{driver.name}, grown over its limit with our hooks", grow(driver, new_place(driver)))
    if "kept" in scenes:
        wrong += say(f"{driver.name}, sessions that never compact", keep_all(driver, new_place))
    if "plugin" in scenes and driver.name in COMMANDS:
        wrong += say(f"{driver.name}, the plugin", plug_in(driver, lambda: new_place(driver)))
    if "resumed" in scenes:
        session = sessions[0] if sessions else made_up()
        wrong += say(f"{driver.name}, sessions that we changed", resume(driver, new_place(driver), session))
    if "faults" in scenes:
        wrong += say(f"{driver.name}, faults", go_wrong(driver, lambda: new_place(driver)))
    return wrong + _check_gateway(driver, new_place, scenes)


def _check_gateway(driver: Driver, new_place: Callable[[Driver], Place], scenes: Sequence[str]) -> int:
    """Run the scenes of this client through the gateway; how much did not hold."""
    wrong = 0
    for scene, routes in (("gateway", ROUTES), ("native", NATIVE_ROUTES)):
        for client, driven in routes if scene in scenes else ():
            if client is driver:
                title = f"{driven.name}, through the gateway{', compacted by the provider' * (scene == 'native')}"
                wrong += say(title, go_through(driven, new_place(driver), native=scene == "native"))
    if "below" in scenes:
        driven = {client.name: driven for client, driven in reversed(ROUTES)}[driver.name]
        title = f"{driver.name}, through the gateway below the trigger"
        wrong += say(title, stay_below(driven, lambda: new_place(driver)))
    return wrong


def _recorded(
    drivers: Sequence[Driver], new_place: Callable[[Driver], Place], sessions: Sequence[Recorded], kept: Path
) -> int:
    """Play every recorded compaction with every client, both ways, and write the page; return how many runs failed.

    A run that the file `kept` holds for the same code is not played again: an interrupted series continues.
    """
    print("\nrecorded compactions", flush=True)
    outcomes = read_kept(kept)
    for session in sessions:
        for driver in drivers:
            for ours in (False, True):
                if (session.name, driver.name, ours) in outcomes:
                    continue
                found = play(driver, new_place(driver), session, ours=ours)
                outcomes[session.name, driver.name, ours] = found
                keep(outcomes.values(), kept)
                say_outcome(found)
    if len(drivers) == len(DRIVERS):
        PAGE.write_text(page(list(outcomes.values())), encoding="utf-8")
    return sum(outcome.exit != 0 for outcome in outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
