"""The files in `deploy/`, as far as they can be tried without an engine for containers: they name what is there."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dist
import workspace
from patience import PATIENCE
from places import ROOT
from unabridged_gateway.command import command
from unabridged_gateway.config_file import load_config

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "unabridged-gateway.service"
OPTIONS = {option for parameter in command.params for option in parameter.opts}
yaml: Any = pytest.importorskip("yaml")


def test_the_configuration_is_one_and_takes_its_secrets_from_where_compose_puts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name in ("gateway-1", "gateway-2"):
        assert services[name]["depends_on"]["db"]
        given = services[name]["environment"]
    for variable in given:
        monkeypatch.setenv(variable, f"{variable}-of-this-test")
    config = load_config(DEPLOY / "gateway.toml")
    assert set(config.tenants.tokens.values()) == {"alice"}
    assert config.tenants.operator == ("METRICS_TOKEN-of-this-test",)
    assert set(config.upstreams.urls) == {"openai", "anthropic", "gemini"}
    assert config.compaction.archive == "postgresql://unabridged@db/unabridged"
    assert {f"{services['db']['environment'][f'POSTGRES_{part}']}" for part in ("USER", "DB")} == {"unabridged"}


def test_compose_and_the_balancer_name_files_and_services_that_there_are() -> None:
    made = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    mounted = [volume.split(":")[0] for service in made["services"].values() for volume in service.get("volumes", ())]
    for source in mounted:
        assert source in made["volumes"] or (DEPLOY / source).is_file(), source
    build = made["services"]["gateway-1"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Containerfile"
    asked = re.findall(r"(gateway-\d):(\d+)", (DEPLOY / "Caddyfile").read_text())
    assert dict(asked) == dict.fromkeys(("gateway-1", "gateway-2"), "8484")


def test_the_image_has_what_it_copies_installs_and_runs() -> None:
    lines = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text()).splitlines()
    steps = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
    told = dict(steps)
    assert json.loads(told["ENTRYPOINT"]) == ["unabridged", "gateway"]
    assert json.loads(told["CMD"])[0] in OPTIONS
    assert told["USER"] == "10001"
    check = json.loads(told["HEALTHCHECK"].partition("CMD ")[2])
    compile(check[-1], "HEALTHCHECK", "exec")
    assert ":8484/healthz" in check[-1]
    (extras,) = re.findall(r'/src/packages/unabridged\[([\w,]+)\]"', "\n".join(lines))
    assert set(extras.split(",")) <= workspace.project()["optional-dependencies"].keys()
    copied = re.findall(r"/src/packages/([\w-]+)", "\n".join(lines))
    assert set(copied) == set(dist.distributions("gateway"))
    kept = [line[1:] for line in (DEPLOY / "Containerfile.dockerignore").read_text().split() if line.startswith("!")]
    assert all((ROOT / name).exists() for name in kept)


def test_the_unit_starts_the_gateway_with_options_that_there_are(tmp_path: Path) -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), re.MULTILINE)
    program, command, *rest = shlex.split(line)
    assert (Path(program).name, command) == ("unabridged", "gateway")
    assert {word for word in rest if word.startswith("--")} <= OPTIONS
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(program, sys.executable))
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
