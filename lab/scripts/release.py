"""Build a release, check it, and describe it: what `make release VERSION=0.1.0` runs. RELEASING.md says how it is used.

It refuses a version that the files do not have, a working tree with changes, and a value of the owner that is empty in
RELEASING.md. Then it does all of `make dist`, and adds an SBOM for each distribution and the checksums of all files to
`dist/`. With `--publish`, the commit gets the tag. Nothing is uploaded from here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from functools import partial
from pathlib import Path

import dist
from workspace import PACKAGES, ROOT, project

MANIFESTS = (
    *(f"plugins/unabridged/.{client}-plugin/plugin.json" for client in ("claude", "codex")),
    "CITATION.cff",
    "packages/unabridged/src/unabridged/__init__.py",
)
"""Files beside each pyproject.toml in which the version stands."""
SBOM_TOOL = "cyclonedx-bom"


def owner_values(root: Path = ROOT) -> dict[str, str]:
    """Return the values that the owner writes into RELEASING.md."""
    text = (root / "RELEASING.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(.+?)^```", text, re.MULTILINE | re.DOTALL)
    return tomllib.loads(block)


def files_with_values(values: dict[str, str], root: Path = ROOT) -> dict[Path, str]:
    """Return the text that each file has once these values are written into it."""
    found = {}
    repository = values["repository"].rstrip("/")
    links = {"Documentation": values["documentation"], "Repository": repository}
    links["Changelog"] = f"{repository}/blob/main/CHANGELOG.md"
    person = f"{{ name = {json.dumps(values['maintainer'])}, email = {json.dumps(values['maintainer_email'])} }}"
    urls = ", ".join(f"{name} = {json.dumps(link)}" for name, link in links.items())
    lines = f"maintainers = [{person}]\nurls = {{ {urls} }}\n"
    for package in PACKAGES:
        path = root / "packages" / package.name / "pyproject.toml"
        text = re.sub(r"^(?:maintainers|urls) = .*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        found[path] = re.sub(r"^requires-python = .*\n", lambda line: line[0] + lines, text, flags=re.MULTILINE)
    policy = root / "SECURITY.md"
    report = f"Please report a vulnerability in private, to {values['security_contact']}, not by a public issue."
    found[policy] = re.sub(
        r"Please report a vulnerability in private.+?not by a public issue\.", lambda _: report,
        policy.read_text(encoding="utf-8"), count=1, flags=re.DOTALL,
    )  # fmt: skip
    citation = root / "CITATION.cff"
    kept = re.sub(r"^repository-code: .*\n", "", citation.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found[citation] = f"{kept}repository-code: {values['repository']}\n"
    return found


def set_version(new: str, root: Path = ROOT) -> list[Path]:
    """Write this version into every file that has the present one, and return those files."""
    present = re.escape(project(root=root)["version"])
    names = [f"packages/{package.name}/pyproject.toml" for package in PACKAGES]
    stands = re.compile(
        rf'((?:^version = "|^version: |"version": "|^__version__ = "|==)){present}(?=["\n])', re.MULTILINE
    )
    for path in (paths := [root / name for name in (*names, *MANIFESTS)]):
        text, times = stands.subn(rf"\g<1>{new}", path.read_text(encoding="utf-8"))
        if not times:
            raise SystemExit(f"{path.relative_to(root)} does not have the version {project(root=root)['version']}")
        path.write_text(text, encoding="utf-8")
    return paths


def reasons_to_refuse(version: str, root: Path = ROOT) -> list[str]:
    """Return why this version can't be released from this working tree; nothing if it can."""
    found = []
    values = owner_values(root)
    if empty := [name for name, value in values.items() if not value.strip()]:
        found.append(f"RELEASING.md: the owner has not filled in {', '.join(empty)}")
    elif any(path.read_text(encoding="utf-8") != text for path, text in files_with_values(values, root).items()):
        found.append("the files lack the owner's values: run lab/scripts/release.py --write, and commit")
    if (present := project(root=root)["version"]) != version:
        found.append(f"the files have {present}: run lab/scripts/release.py --set-version {version}, and commit")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)}, \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        found.append(f"CHANGELOG.md has no heading `## {version}, YYYY-MM-DD`")
    if _git("status", "--porcelain", root=root):
        found.append("the working tree has changes that are not committed")
    tags_here = _git("tag", "--points-at", "HEAD", root=root).split()
    if _git("tag", "--list", f"v{version}", root=root) and f"v{version}" not in tags_here:
        found.append(f"the tag v{version} stands at another commit")
    return found


def write_sbom(tools: dist.Environment, name: str, folder: Path) -> str:
    """Install a distribution beside the others of this release, and describe what that brought."""
    fresh = dist.Environment(folder / f"env-sbom-{name}", tools)
    fresh.install(name, "--find-links", str(dist.DIST))
    target = dist.DIST / f"{name.replace('-', '_')}-{project(name)['version']}.cdx.json"
    source = ROOT / "packages" / name / "pyproject.toml"
    dist.run(
        folder, tools.python, "-m", "cyclonedx_py", "environment", fresh.python, "--output-reproducible",
        "--pyproject", source, "--mc-type", "library", "--output-file", target,
    )  # fmt: skip
    parts = json.loads(target.read_text(encoding="utf-8"))["components"]
    if not any(part["name"] == name for part in parts):
        raise dist.Failed(f"{target.name} does not name {name}")
    return f"{len(parts)} components"


def write_checksums() -> str:
    """Write `SHA256SUMS` over all files of the release."""
    files = sorted(path for path in dist.DIST.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (dist.DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    return f"{len(lines)} files"


def describe(folder: Path, report: dist.Report) -> None:
    """Add the SBOMs and the checksums to `dist/`."""
    tools = dist.Environment(folder / "env-sbom")
    if report.step("tools", partial(tools.install, SBOM_TOOL)):
        for package in PACKAGES:
            report.step("sbom", partial(write_sbom, tools, package.name, folder))
        report.step("checksums", write_checksums)


def make_release(version: str, extras: list[str], *, publish: bool) -> int:
    """Make everything, and return the exit code."""
    if reasons := reasons_to_refuse(version):
        print(f"No release of {version}:", *reasons, sep="\n- ", file=sys.stderr)
        return 2
    if code := dist.make_all(extras):
        return code
    report = dist.Report()
    with tempfile.TemporaryDirectory(prefix="unabridged-release-") as temporary:
        describe(Path(temporary), report)
    if report.failures:
        return 1
    if publish:
        if not _git("tag", "--list", f"v{version}"):
            _git("tag", "--annotate", f"v{version}", "--message", f"unabridged {version}")
        print(f"\nThe commit has the tag v{version}. `git push origin v{version}` starts the upload.")
    else:
        print(f"\ndist/ is ready for {version}. Nothing was tagged: PUBLISH=1 does that.")
    return 0


def _git(*arguments: str, root: Path = ROOT) -> str:
    return subprocess.run(("git", *arguments), cwd=root, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607


def main() -> int:
    """Do what was asked for, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--version", help="build, check and describe this version")
    what.add_argument("--write", action="store_true", help="write the owner's values into the files that show them")
    what.add_argument(
        "--set-version", metavar="VERSION", help="write this version into the files that have the present one"
    )
    parser.add_argument("--publish", action="store_true", help="with --version: tag the commit")
    parser.add_argument("extras", nargs="*", help="use only these extras; `none` is the library alone (default: all)")
    options = parser.parse_args()
    if options.version:
        return make_release(options.version, options.extras, publish=options.publish)
    if options.set_version:
        written = set_version(options.set_version)
    else:
        values = owner_values()
        if empty := [name for name, value in values.items() if not value.strip()]:
            raise SystemExit(f"RELEASING.md: fill in {', '.join(empty)} first")
        texts = files_with_values(values)
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
        written = list(texts)
    print(*(path.relative_to(ROOT) for path in written), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
