"""The gateway's configuration: flags beat the file, and whatever could fail later is refused in words."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from unabridged.errors import SettingsError
from unabridged.settings import Clear, Settings
from unabridged_gateway.config import Handling, build_config
from unabridged_gateway.config_file import load_config

TOKEN = "0123456789abcdef-ALICE"  # noqa: S105 - planted
OTHER = "fedcba9876543210-CAROL"
SECRET = "a secret that nobody sees"  # noqa: S105 - planted
UPSTREAM = "http://127.0.0.1:9000"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UNABRIDGED_GATEWAY_SECRET", "UNABRIDGED_OPERATOR_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALICES", TOKEN)


def written(folder: Path, text: str) -> Path:
    path = folder / "gateway.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def test_an_upstream_is_all_that_must_be_said() -> None:
    config = load_config(upstream=f"{UPSTREAM}/")
    assert dict(config.upstreams.urls) == dict.fromkeys(["openai", "anthropic", "gemini"], UPSTREAM)
    assert (config.listening.host, config.listening.port, config.tenants.namespace, config.compaction.summariser) == (
        "127.0.0.1", 8484, "default", "upstream",
    )  # fmt: skip
    assert config.compaction.settings == Settings(background=0.8)


def test_the_file_says_everything_and_flags_beat_it(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        host = "0.0.0.0"
        hosts = ["gateway.example", "Gateway.test"]
        operator = { token_env = "ALICES" }
        max_head = "32k"
        max_headers = 50
        head_timeout = 5
        port = 80
        window = "200k"
        trigger = ["85%", "messages=300"]
        keep = 0.1
        background = 0.7
        archive = "memory:"
        namespace = "team"
        summariser = "openai:gpt-5-mini"
        max_body = "32m"
        timeout = 30
        concurrency = 8
        [upstreams]
        openai = "https://api.openai.com"
        anthropic = "https://gate.example/anthropic/"
        [tenants]
        carol = "fedcba9876543210-CAROL"
        """,
    )
    config = load_config(path, port=8080, window="1m", host=None, keep=["8k", "messages=20"])
    assert dict(config.upstreams.urls) == {
        "openai": "https://api.openai.com",
        "anthropic": "https://gate.example/anthropic",
    }
    assert (config.listening.host, config.listening.port) == ("0.0.0.0", 8080)  # noqa: S104
    assert (config.compaction.window, config.tenants.namespace) == (1_000_000, "team")
    assert config.compaction.settings == Settings(
        trigger=[{"fraction": 0.85}, {"messages": 300}], keep=[("tokens", 8_000), ("messages", 20)], background=0.7
    )
    limits = config.listening
    assert (limits.max_body, limits.max_decoded, config.upstreams.timeout) == (32_000_000, 64_000_000, 30.0)
    assert (limits.max_head, limits.max_headers, limits.head_timeout) == (32_000, 50, 5.0)
    assert config.listening.hosts == ("gateway.example", "gateway.test")
    assert (dict(config.tenants.tokens), config.tenants.operator) == ({OTHER: "carol"}, (TOKEN,))
    assert load_config(path, upstream=UPSTREAM).upstreams.urls["openai"] == UPSTREAM


def test_tokens_come_from_the_file_the_environment_and_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAROLS", OTHER)
    tenants = f'[tenants]\nalice = ["{TOKEN}", "{TOKEN}-new"]\ncarol = {{ token_env = "CAROLS" }}\n'
    path = written(tmp_path, f'upstream = "{UPSTREAM}"\nnamespace = "team"\n{tenants}')
    assert dict(load_config(path).tenants.tokens) == {TOKEN: "alice", f"{TOKEN}-new": "alice", OTHER: "carol"}
    padded = "MDEyMzQ1Njc4OWFiY2RlZg=="
    flags = load_config(path, token=[padded, f"bob={OTHER}"])
    assert dict(flags.tenants.tokens) == {padded: "team", OTHER: "bob"}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({}, "no upstream is named: give --upstream https://api.openai.com"),
        ({"upstream": "https://api.openai.com/v1"}, "--upstream ends in /v1, which clients send themselves"),
        ({"upstream": "https://api.openai.com/v1/"}, "leave it out of https://api.openai.com/v1"),
        ({"upstream": "https://google.example/v1beta"}, "--upstream ends in /v1beta"),
        ({"upstream": "https://me:Qx7pass@host.example"}, "--upstream has credentials before host.example"),
        ({"upstream": "https://host.example/?key=Qx7"}, "--upstream has a query or a fragment behind host.example/"),
        ({"upstream": "https://host.example#Qx7"}, "has a query or a fragment"),
        ({"upstream": "ftp://host.example"}, "and a host, such as https://api.openai.com; got 'ftp:"),
        ({"upstream": "api.openai.com"}, "got 'api.openai.com'"),
        ({"upstream": "https://"}, "and a host"),
        ({"upstream": "https://host.example:99999"}, "Port out of range"),
        ({"upstream": "https://[::1"}, "--upstream is not a URL: 'https://[::1'"),
        ({"upstream": "https://host.example/a\r\nHost: evil"}, "a control character in it"),
        ({"upstream": "http://localhost:8484"}, "is where the gateway listens itself"),
        ({"upstream": UPSTREAM, "host": "0.0.0.0"}, "host '0.0.0.0' is open to other machines"),  # noqa: S104
        ({"upstream": UPSTREAM, "host": "gateway.example"}, "give --token"),
        ({"upstream": UPSTREAM, "port": 70_000}, "--port must be a whole number from 1 to 65,535"),
        ({"upstream": UPSTREAM, "port": True}, "got True"),
        ({"upstream": UPSTREAM, "window": "lots"}, "--window must be a whole number of at least 1"),
        ({"upstream": UPSTREAM, "window": 12}, "at least 64 tokens"),
        ({"upstream": UPSTREAM, "trigger": ["bytes=3"]}, "--trigger: trigger knows tokens=, fraction=, messages="),
        ({"upstream": UPSTREAM, "trigger": []}, "--trigger must be 85%, 170k"),
        ({"upstream": UPSTREAM, "window": "8k", "trigger": ["1k"], "keep": ["2k"]}, "keep must be below the trigger"),
        ({"upstream": UPSTREAM, "window": "8k", "trigger": ["0.5"], "keep": ["5k"]}, "keep is 5,000 tokens of the"),
        ({"upstream": UPSTREAM, "window": "8k", "trigger": ["4k"], "keep": ["0.9"]}, "keep is 7,200 tokens of the"),
        ({"upstream": UPSTREAM, "trigger": ["5k"], "keep": ["8k"]}, "8,000 tokens kept, trigger at 5,000"),
        ({"upstream": UPSTREAM, "trigger": ["0.5"], "keep": ["0.5"]}, "keep must be below the trigger"),
        ({"upstream": UPSTREAM, "trigger": ["1.5"]}, "--trigger: 1.5 is at or above the whole window: write 85%"),
        ({"upstream": UPSTREAM, "keep": ["tokens=1.5"]}, "is at or above the whole window: write 10%"),
        ({"upstream": UPSTREAM, "trigger": ["1"]}, "the trigger is 100% of the window, at or above the whole window"),
        ({"upstream": UPSTREAM, "trigger": ["100%"]}, "write a share below 1"),
        ({"upstream": UPSTREAM, "trigger": ["messages=9", "1.0"]}, "at or above the whole window"),
        ({"upstream": UPSTREAM, "trigger": ["8k"], "window": "8k"}, "at or above the whole window of 8,000 tokens"),
        ({"upstream": UPSTREAM, "hosts": ["a.example:80"]}, "--hosts must be a list of names such as gateway."),
        ({"upstream": UPSTREAM, "operator": "Qx7"}, "the token of operator in --operator has 3 characters"),
        ({"upstream": UPSTREAM, "operator": TOKEN, "token": [f"a={TOKEN}"]}, "the operator has the token of a"),
        ({"upstream": UPSTREAM, "head_timeout": 0}, "--head-timeout must be a number of seconds"),
        ({"upstream": UPSTREAM, "redact": "yes"}, "--redact must be true or false"),
        ({"upstream": UPSTREAM, "pins": "one"}, "--pins must be a list of texts"),
        ({"upstream": UPSTREAM, "clear": {"rounds": 3}}, "true, false, or a table with keep_rounds, minimum"),
        ({"upstream": UPSTREAM, "clear": {"minimum": 0}}, "--clear: Clear.minimum must be a whole number of at"),
        ({"upstream": UPSTREAM, "background": 1.5}, "--background must be a share of the trigger"),
        ({"upstream": UPSTREAM, "timeout": 0}, "--timeout must be a number of seconds above 0"),
        ({"upstream": UPSTREAM, "timeout": float("nan")}, "got nan"),
        ({"upstream": UPSTREAM, "summariser": "gpt-5"}, "or provider:name such as openai:gpt-5-mini; got 'gpt-5'"),
        ({"upstream": UPSTREAM, "fallback": "open"}, "--fallback must be refuse or credential"),
        ({"upstream": UPSTREAM, "fallback": "credential"}, "set UNABRIDGED_GATEWAY_SECRET"),
        ({"upstream": UPSTREAM, "fallback": "credential", "secret": SECRET}, "all would share one namespace: give"),
        ({"upstream": UPSTREAM, "secret": "Qx7"}, "at least 16 characters"),
        ({"upstream": UPSTREAM, "token": ["Qx7"]}, "the token of default in --token has 3 characters"),
        ({"upstream": UPSTREAM, "token": [f"a b={TOKEN}"]}, "names a tenant of 3 characters"),
        ({"upstream": UPSTREAM, "token": [f"a={TOKEN}", f"b={TOKEN}"]}, "the same token for a and b"),
        ({"upstream": UPSTREAM, "max-body": 3}, "--max-body is no setting of the gateway: did you mean max_body?"),
    ],
)  # fmt: skip
def test_a_wrong_flag_is_refused_with_key_value_and_remedy(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_config(**flags)
    assert words in str(refused.value)
    assert "Qx7" not in str(refused.value), "a secret"
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 80", "is no setting of the gateway: did you mean port?"),
        ("zzz = 80", "it knows archive, background"),
        ("port = 'x'", "gateway.toml must be a whole number from 1 to 65,535"),
        ("upstream = 3", "gateway.toml must be a text; got 3"),
        ("upstream = ", "is not valid TOML"),
        ("[upstreams]\nmistral = 'http://x'", "knows openai, anthropic, gemini; got 'mistral'"),
        ("upstream = 'http://x'\n[upstreams]\nopenai = 'http://y'", "has upstream and [upstreams]"),
        ("[upstreams]\nopenai = 'http://x/v1'", "openai of upstreams in "),
        ("[tenants.alice]\ntokne = 'Qx7'", 'must be "token", { token_env = "VARIABLE" }'),
        ("[tenants]\nalice = { token_env = 'NOT_THERE' }", "takes its token from NOT_THERE, which is not in the"),
        ("tenants = 'Qx7'", "must be a table of names and tokens"),
        ("models = 'x'", 'must be a table for each model: [models."claude-*"]'),
        ("[models.x]\ntrigger = 0.5", "x of models in "),
        (f"[tenants.alice]\ntoken = '{TOKEN}'\npins = [3]", "pins of alice of tenants in"),
        ("background = 'Qx'", "or never; got 'Qx'"),
    ],
)
def test_a_wrong_line_in_the_file_is_refused_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError, match=r"gateway\.toml") as refused:
        load_config(path, upstream=UPSTREAM)
    assert words in str(refused.value)
    assert "Qx7" not in str(refused.value)


def test_a_file_that_is_not_there_or_no_text_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"can't read the configuration .*: No such file"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is not valid TOML"):
        load_config(tmp_path / "bytes.toml")


@pytest.mark.parametrize(
    ("mode", "text", "warned"),
    [
        (0o644, f"[tenants]\nalice = '{TOKEN}'", True),
        (0o600, f"[tenants]\nalice = '{TOKEN}'", False),
        (0o644, "[tenants]\nalice = { token_env = 'ALICES' }", False),
        (0o640, f"secret = '{SECRET}'", True),
        (0o644, "archive = 'postgresql://me:Qx7@db/app'", True),
        (0o644, "archive = 'memory:'", False),
        (0o644, f"operator = '{TOKEN}'", True),
        (0o644, f"[tenants.alice]\ntoken = '{TOKEN}'\nredact = true", True),
        (0o644, "operator = { token_env = 'ALICES' }", False),
    ],
)
def test_a_file_with_secrets_that_others_can_read_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, text: str, warned: bool
) -> None:
    path = written(tmp_path, text)
    path.chmod(mode)
    with caplog.at_level(logging.WARNING):
        load_config(path, upstream=UPSTREAM)
    assert ("chmod 600" in caplog.text) is warned


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNABRIDGED_GATEWAY_SECRET", SECRET)
    archive = "postgresql://me:Qx7pass@db/app"
    config = load_config(upstream=UPSTREAM, token=[f"alice={TOKEN}"], archive=archive, fallback="credential")
    assert config.tenants.secret == SECRET
    shown = repr(config)
    assert "alice" in shown
    assert "postgresql://me@db/app" in shown
    assert not any(hidden in shown for hidden in (TOKEN, SECRET, "Qx7pass"))


def test_what_was_checked_can_not_be_changed() -> None:
    config = build_config({"openai": UPSTREAM})
    with pytest.raises(AttributeError):
        config.listening.host = "0.0.0.0"  # type: ignore[misc]  # noqa: S104
    compaction, mappings = config.compaction, [config.upstreams.urls, config.tenants.tokens]
    for mapping in (*mappings, compaction.models, compaction.own):
        with pytest.raises(TypeError):
            mapping["x"] = "y"  # type: ignore[index]


def test_a_tenant_beats_a_model_and_a_model_what_is_set_for_all(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f"""
        upstream = "{UPSTREAM}"
        pins = ["For all."]
        [clear]
        minimum = 70
        exclude = ["plan"]
        [models."claude-*"]
        clear = false
        redact = true
        [models."claude-haiku-5"]
        redact = false
        [tenants.alice]
        token_env = "ALICES"
        redact = false
        pins = ["Hers."]
        [tenants.carol]
        token = ["{OTHER}", "{OTHER}-new"]
        clear = {{ keep_rounds = 9 }}
        """,
    )
    config = load_config(path)
    assert dict(config.tenants.tokens) == {TOKEN: "alice", OTHER: "carol", f"{OTHER}-new": "carol"}
    every = Clear(minimum=70, exclude=("plan",))
    assert config.compaction.find_handling("gpt-5", "bob") == Handling(every, ("For all.",), redact=False)
    assert config.compaction.find_handling("claude-opus-5-5", "bob") == Handling(None, ("For all.",), redact=True)
    assert config.compaction.find_handling("claude-haiku-5", "bob") == Handling(every, ("For all.",), redact=False), (
        "the name itself"
    )
    assert config.compaction.find_handling("claude-opus-5-5", "alice") == Handling(None, ("Hers.",), redact=False)
    assert config.compaction.find_handling("claude-opus-5-5", "carol") == Handling(
        Clear(keep_rounds=9), ("For all.",), redact=True
    )
