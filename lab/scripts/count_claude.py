"""Make `tests/helpers/corpora/claude_counts.json`: what Claude 4.8 and Claude 3 count for the texts that tests make.

python3.12 -m venv /tmp/counts && /tmp/counts/bin/pip install ctok
/tmp/counts/bin/python lab/scripts/count_claude.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from zlib import crc32

from ctok import token_count  # type: ignore[import-not-found,unused-ignore]

HELPERS = Path(__file__).parents[2] / "tests" / "helpers"
sys.path.insert(0, str(HELPERS))


def main() -> None:
    """Write the file: for each text its checksum, and both counts."""
    from noise import samples  # noqa: PLC0415 - the tests' own

    counts = {}
    for name, text in samples().items():
        frame = {version: token_count("a", version) - 1 for version in ("4.8", "3.0")}
        counts[name] = [
            crc32(text.encode()),
            *(token_count(text, version) - around for version, around in frame.items()),
        ]
    lines = ",\n".join(json.dumps({name: row}, ensure_ascii=False)[1:-1] for name, row in counts.items())
    (HELPERS / "corpora" / "claude_counts.json").write_text("{" + lines + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
