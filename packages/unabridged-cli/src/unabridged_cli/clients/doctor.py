"""What `unabridged doctor` checks of each client: its configuration, the plugin, and that hooks are trusted and run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unabridged import __version__
from unabridged.errors import SettingsError
from unabridged_cli.clients.client import CodingAgent, Environ, format_utc_minute
from unabridged_cli.clients.configure import EntryStatus, read_entry_status, read_text
from unabridged_cli.clients.diagnosis import INSTALL_SERVER, SERVER, Diagnosis, check_program, check_server
from unabridged_cli.clients.entries import HOOKS, HooksEntry, find_own_handlers
from unabridged_cli.clients.hook_runs import find_hook_problems, find_last_run_time
from unabridged_cli.clients.plugins import InstalledPlugin, find_plugin, read_json, read_toml


class ClientSetup(NamedTuple):
    """What of this package one client has: by an install for the user, by one for the project, and by the plugin."""

    agent: CodingAgent
    user: Sequence[EntryStatus]
    project: Sequence[EntryStatus]
    plugin: InstalledPlugin | None

    @property
    def is_empty(self) -> bool:
        """Return whether the client has nothing of this package."""
        return not (self.user or self.project or self.plugin)

    def programs(self, *, servers_only: bool = False) -> list[str]:
        """Return the programs that the client starts; the plugin's is looked up on the PATH."""
        entries = [entry for entry in (*self.user, *self.project) if entry.what == SERVER or not servers_only]
        named = [entry.program for entry in entries if entry.program]
        return list(dict.fromkeys([*named, *(["unabridged"] if self.plugin else [])]))


def read_setup(agent: CodingAgent, environ: Environ, folder: Path) -> ClientSetup:
    """Return what this client has, in this project's folder."""
    user, project = (
        [status for status in map(read_entry_status, agent.entries(environ, where)) if status.state != "absent"]
        for where in (None, folder)
    )
    return ClientSetup(agent, user, project, find_plugin(agent, environ, folder))


def check_client(setup: ClientSetup, environ: Environ, folder: Path) -> Iterator[Diagnosis]:
    """Check one client: its configuration, the programs that it starts, and that its hooks run, once."""
    agent = setup.agent
    if setup.is_empty:
        nothing = f"{agent.title} has nothing of unabridged"
        yield Diagnosis(agent.name, "set-up", nothing, f"unabridged install {agent.name}")
        return
    for status in (*setup.user, *setup.project):
        yield _check_entry(status, agent)
    if setup.plugin:
        yield from _check_plugin(setup.plugin, agent, environ)
    yield from _check_completeness(setup, environ)
    for program in setup.programs():
        yield check_program(program, agent, environ)
    for program in setup.programs(servers_only=True):
        if shutil.which(program, path=environ.get("PATH")):
            yield check_server(program, agent, environ)
    yield from _check_runs(setup, environ, folder)
    yield from _check_duplicates(setup)


def _check_entry(status: EntryStatus, agent: CodingAgent) -> Diagnosis:
    """Check one entry of an install."""
    if status.state == "other":
        return Diagnosis(agent.name, status.what, f"{status.path} has somebody's own named unabridged")
    remedy = f"mend {status.path} if it is said to be broken or ignored, then unabridged install {agent.name}"
    found = status.problem or f"{status.path} has them as this version installs them"
    return Diagnosis(agent.name, status.what, found, remedy if status.problem else "")


def _check_plugin(plugin: InstalledPlugin, agent: CodingAgent, environ: Environ) -> Iterator[Diagnosis]:
    """Check that the plugin is whole, of this version and enabled."""
    listed = read_json(plugin.hooks).get("hooks", {})
    missing = [hook.event for hook in HOOKS if hook.event not in listed]
    found, remedy = f"{plugin.id} {plugin.version} in {plugin.root} is whole and enabled", ""
    if not plugin.version or missing:
        found = f"{plugin.root} is not there" if not plugin.version else f"it has no hook for {', '.join(missing)}"
        remedy = f"install {plugin.id} again from a folder that stays"
    elif plugin.version != __version__:
        found = f"{plugin.id} is version {plugin.version}, and the program is {__version__}"
        remedy = f"update the plugin from the marketplace of version {__version__}"
    elif not plugin.is_enabled:
        found = f"{plugin.id} is disabled in the configuration of {agent.title}"
        remedy = f"enable it, or uninstall it: {agent.name.partition('-')[0]} plugin --help"
    yield Diagnosis(agent.name, "plugin", found, remedy)
    if agent.name == "claude-code":
        settings = agent.home(environ) / "settings.json"
        try:
            ignored = HooksEntry(settings).find_ignore_reason(read_text(settings) or "")
        except SettingsError as error:
            ignored = str(error)
        if ignored:
            yield Diagnosis(agent.name, "hooks", f"{settings} is ignored by its client: {ignored}", f"mend {settings}")


def _check_completeness(setup: ClientSetup, environ: Environ) -> Iterator[Diagnosis]:
    """Check that no part is missing where there is no plugin, which has both."""
    has = {status.what for status in (*setup.user, *setup.project)}
    expected = {entry.what for entry in setup.agent.entries(environ, None)}
    for what in sorted(expected - has) if not setup.plugin else ():
        install = f"unabridged install {setup.agent.name}"
        remedy = f"{INSTALL_SERVER}, then {install}" if what == SERVER else install
        yield Diagnosis(setup.agent.name, what, f"{setup.agent.title} has none of unabridged", remedy)


def _check_runs(setup: ClientSetup, environ: Environ, folder: Path) -> Iterator[Diagnosis]:
    """Check that hooks are trusted and that they ran in the sessions since they were installed."""
    agent = setup.agent
    sources: list[tuple[Path, Path | None]] = [(one.path, None) for one in setup.user if one.what != SERVER]
    sources += [(one.path, folder) for one in setup.project if one.what != SERVER]
    sources += [(setup.plugin.record, None)] if setup.plugin and setup.plugin.record.exists() else []
    problems = [one for path, where in sources for one in find_hook_problems(agent, environ, path, where)]
    for found, remedy in dict(problems).items():
        yield Diagnosis(agent.name, "runs", found, remedy)
    ran = find_last_run_time(agent, environ, None)
    if not problems:
        when = f"hooks ran last on {format_utc_minute(ran)}" if ran else "no session was started yet"
        yield Diagnosis(agent.name, "runs", when)
    since = max((path.stat().st_mtime for path, _ in sources if path.exists()), default=0.0)
    if agent.name == "codex" and (ran or 0.0) < since:  # they run only where they are trusted
        yield from _check_trust(setup, environ)


def _check_trust(setup: ClientSetup, environ: Environ) -> Iterator[Diagnosis]:
    """Check that Codex has noted trust in each hook, in its configuration."""
    state = read_toml(setup.agent.home(environ) / "config.toml").get("hooks", {}).get("state", {})
    keys = list(_list_trust_keys(setup))
    trusted = [key for key in keys if state.get(key, {}).get("trusted_hash") and state[key].get("enabled") is not False]
    found = f"{len(trusted)} of {len(keys)} hooks are trusted"
    yield Diagnosis("codex", "trust", found, setup.agent.remedy if len(trusted) < len(keys) else "")


def _list_trust_keys(setup: ClientSetup) -> Iterator[str]:
    """Yield the names under which Codex notes trust: FILE:EVENT:GROUP:HANDLER, with the event in snake case."""
    for status in (*setup.user, *setup.project):
        if status.what == "hooks" and status.state != "unreadable":
            for path, _ in find_own_handlers(read_text(status.path) or ""):
                yield _build_trust_key(str(status.path), str(path[1]), path[2], path[4])
    if setup.plugin:
        listed: dict[str, Any] = read_json(setup.plugin.hooks).get("hooks", {})
        for event, groups in listed.items():
            for number in range(len(groups)):
                yield _build_trust_key(f"{setup.plugin.id}:hooks/hooks.json", event, number, 0)


def _build_trust_key(source: str, event: str, group: int | str, handler: int | str) -> str:
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in event).lstrip("_")
    return f"{source}:{snake}:{group}:{handler}"


def _check_duplicates(setup: ClientSetup) -> Iterator[Diagnosis]:
    """Check that nothing is there twice, but for the plugin beside an install, which is made for that.

    Of two servers of one name, and in Claude Code of two equal hooks, a client uses one.
    """
    agent, of_user = setup.agent, {status.what: status for status in setup.user}
    for status in setup.project:
        twin, is_claude_code = of_user.get(status.what), agent.name == "claude-code"
        if status.what == SERVER:
            is_double = is_claude_code and setup.plugin is not None and twin is None
        else:
            is_double = twin is not None and not (is_claude_code and twin.program == status.program)
        if is_double:
            found = f"{status.path} has the {status.what} that {twin.path if twin else 'the plugin'} has too"
            yield Diagnosis(agent.name, "duplicates", found, f"unabridged uninstall {agent.name} --scope project")
    if setup.plugin and setup.user:
        yield Diagnosis(agent.name, "duplicates", "plugin and install are both there: each event is answered once")
