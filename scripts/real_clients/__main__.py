"""`make clients`: download the real clients, run them on loopback, and say what held."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from real_clients.clients import DRIVERS, Place
from real_clients.packages import default_folder, install
from real_clients.record import record, recordable


def main() -> int:
    """Do what was asked; 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="make clients", description=__doc__)
    parser.add_argument("what", choices=["record"], help="record: hook inputs, as fixtures")
    parser.add_argument("--folder", type=Path, default=default_folder(), help="where the clients are, or go")
    chosen = parser.parse_args()
    commands = install(chosen.folder)
    for driver in recordable():
        with tempfile.TemporaryDirectory() as home:
            record(driver, Place(Path(home), chosen.folder, commands[driver.name]))
    print(f"recorded: {', '.join(driver.name for driver in recordable())} of {', '.join(DRIVERS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
