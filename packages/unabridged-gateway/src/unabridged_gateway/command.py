"""The command `gateway`: compaction for clients that nobody can change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unabridged_cli import options
from unabridged_cli.app import make_command
from unabridged_cli.screen import print_notice


def gateway(
    *,
    upstream: Annotated[
        str | None,
        typer.Option("--upstream", help="The provider's address without /v1, such as https://api.anthropic.com."),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Where to listen. Default: 127.0.0.1; another one needs a token.")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", help="Where to listen. Default: 8484; 0 finds one.")] = None,
    window: options.Window = None,
    trigger: Annotated[
        list[str] | None, typer.Option("--trigger", help="When to compact: 0.85, 170k, messages=300, never.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option("--keep", help="How much stays verbatim: 0.1, 8k.")] = None,
    archive: options.ArchiveUrl = None,
    token: Annotated[
        list[str] | None,
        typer.Option("--token", envvar="UNABRIDGED_TOKEN", help="What clients must send: TOKEN, or TENANT=TOKEN."),
    ] = None,
    summariser: Annotated[
        str | None,
        typer.Option(
            "--summariser",
            help="Who summarises: upstream (the default: the client's own model and key), native, none, provider:name.",
        ),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option("--log", help="On standard error: quiet (what goes wrong), text or json (also a line a request)."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A TOML file with all of this, and one upstream for each protocol.")
    ] = None,
) -> None:
    """Stand between a client and its provider, and make long conversations fit.

    Point the client's base URL at it: ANTHROPIC_BASE_URL=http://127.0.0.1:8484, or OPENAI_BASE_URL with /v1 at its
    end. Below the trigger every request goes on byte for byte. The client's key is forwarded, never stored or logged.
    """
    from unabridged_gateway.config_file import load_config  # noqa: PLC0415 - the extra brings what it needs
    from unabridged_gateway.logs import configure_log  # noqa: PLC0415 - likewise
    from unabridged_gateway.server import serve  # noqa: PLC0415 - likewise

    settings = load_config(
        config, upstream=upstream, host=host, port=port, window=window, trigger=trigger or None, keep=keep or None,
        archive=archive, token=token or None, summariser=summariser, log=log,
    )  # fmt: skip
    configure_log(settings.log)
    providers = ", ".join(sorted(set(settings.upstreams.urls.values())))
    serve(settings, lambda url: print_notice(f"listening on {url} for {providers}"))


command = make_command(gateway, "Serving", "unabridged gateway --upstream https://api.anthropic.com --window 200k")
