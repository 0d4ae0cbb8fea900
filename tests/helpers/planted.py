"""Fifty facts in a conversation that is compacted three times, and a scripted agent that looks for them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from conversations import assistant, chat_round, user
from unabridged import Compactor
from unabridged.archive.protocol import Archive

Call = Callable[[str, dict[str, Any]], str]


class Fact(NamedTuple):
    subject: str
    value: str


_PEOPLE = (
    "Mirela", "Okonkwo", "Tanaka", "Ferreira", "Lindqvist", "Abernathy", "Castellanos", "Wójcik", "Haddad", "Nakamura",
)  # fmt: skip
_PARTS = (
    "billing", "ledger", "gateway", "mailer", "indexer", "archive", "planner", "scheduler", "exporter", "sandbox",
)  # fmt: skip
_COMMANDS = (
    "grep -rn  'retry_after' src/ | sort -u",
    "psql -c \"SELECT count(*) FROM jobs WHERE state = 'stuck'\"",
    "sed -i 's/====/----/; s/____/~~~~/' notes.md",
    "tar --exclude='*.tmp' -czf /tmp/backup-07.tgz ./data",
    "curl -sS -H 'X-Trace: 9f8e' http://127.0.0.1:9090/metrics?name=p99",
    "find . -name '*.orig' -print0 | xargs -0 rm --",
    "ffmpeg -i in.mov -vf scale=1280:-2 -crf 23 out.mp4",
    "git rebase --onto main 4f2c9ab topic~3",
    "awk 'NR > 1 && $3 >= 0.85 {print $1 \"\\t\" $3}' runs.tsv",
    'docker run --rm -e MODE=dry-run -v "$PWD:/src" builder:1.27.4 make -j2',
)
_CJK = (
    ("仓库密钥的存放处", "第三个保险柜左下角的蓝色信封"),
    ("数据库备份时间", "每天凌晨三点四十分"),
    ("付款的审批人", "财务部的王小明经理"),
    ("サーバーの再起動手順", "先に夜間バッチを止めてから電源を入れ直す"),
    ("請求書の締め日", "毎月二十五日、休日は前営業日"),
    ("担当者の内線番号", "内線は四一七二番、夜間は守衛室"),
    ("배포 담당자", "김서연 책임에게 먼저 확인할 것"),
    ("테스트 계정 이름", "시험용계정-겨울-12"),
    ("회의실 비밀번호", "칠삼공오 별표 두 번"),
    ("ไฟล์สำรองข้อมูล", "เก็บไว้ที่ชั้นสามห้องเซิร์ฟเวอร์"),
)


def facts(seed: str = "A") -> list[Fact]:
    """Ten each of identifiers, paths, numbers, commands and phrases in scripts without spaces."""
    found: list[Fact] = []
    for i, (person, part) in enumerate(zip(_PEOPLE, _PARTS, strict=True)):
        found += [
            Fact(f"ticket opened by {person}", f"{seed}INV-{7919 * (i + 3):06d}-x{i:02x}F"),
            Fact(f"config path of the {part}", f"/srv/{seed}/{part}_v{i}/etc/{part}Settings.{i}.yaml"),
            Fact(f"measured latency of {part} in ms", f"{17.25 * (i + 1) + ord(seed) / 1_000:.3f}"),
            Fact(f"command that fixed the {part}", f"{_COMMANDS[i]} # {seed}"),
            Fact(_CJK[i][0], f"{_CJK[i][1]}{seed}"),
        ]
    return found


def conversation(planted: list[Fact]) -> list[dict[str, Any]]:
    """Every fact once, by turns in a person's words, the assistant's, a call's arguments and a tool's output."""
    messages: list[dict[str, Any]] = []
    for i, fact in enumerate(planted):
        line = f"{fact.subject} = {fact.value}"
        filler = " ".join(f"w{i}x{j}" for j in range(25))
        asked = f"Step {i}. {filler}?"
        if i % 4 == 0:
            messages += [user(f"{asked}\n{line}\nKeep going."), assistant(f"Noted {i}.")]
        elif i % 4 == 1:
            messages += [user(asked), assistant(f"Here it is:\n{line}\n{filler}")]
        elif i % 4 == 2:
            messages += [user(asked), *chat_round(f"note_{i}", "stored", **{fact.subject: fact.value})]
            messages += [assistant(f"Stored {i}.")]
        else:
            bulk = "\n".join(f"row {i}.{j} {filler}" for j in range(12))
            messages += [user(asked), *chat_round(f"show_{i}", f"{bulk}\n{line}\n{bulk}", n=i), assistant("I see.")]
    return messages


def compacted(archive: str | Archive, namespace: str, thread: str, planted: list[Fact], window: int = 4_000) -> int:
    """Run the conversation as a loop does, compacting whenever it must; how often it was."""
    times = 0
    messages: list[Any] = []
    with Compactor(window=window, archive=archive, namespace=namespace) as compactor:
        for message in [*conversation(planted), *(m for i in range(40) for m in _closing(i))]:
            messages.append(message)
            if message["role"] == "user":
                fitted = compactor.fit(messages, thread=thread)
                messages, times = fitted.messages, times + fitted.changed
    return times


def _closing(i: int) -> list[dict[str, Any]]:
    return [user(f"Closing question {i}: {'and more of it ' * 12}?"), assistant(f"Closing answer {i}.")]


def look_up(call: Call, fact: Fact) -> str | None:
    """What an agent that knows only the subject finds out: it searches, then reads the results one after another."""
    found = call("search_history", {"query": fact.subject, "limit": 3})
    for ref in re.findall(r"^\[\d+\] ref (\S+),", found, re.MULTILINE):
        said = read_whole(call, ref)
        if match := re.search(rf"^{re.escape(fact.subject)} = (.*)$", said, re.MULTILINE):
            return match[1]
        for line in said.split("\n"):
            if line.startswith("{") and fact.subject in line:
                return str(json.loads(line)[fact.subject])
    return None


def read_whole(call: Call, ref: str) -> str:
    """The message behind a reference, page by page, without what stands around it."""
    offset, text = 0, ""
    while True:
        page = call("read_history", {"ref": ref, "offset": offset})
        text += "\n".join(line[2:] for line in page.split("\n") if line.startswith("│ "))
        more = re.search(r'^There is more: read ref "\S+" with offset (\d+)\.$', page, re.MULTILINE)
        if more is None:
            return text
        assert int(more[1]) > offset
        offset = int(more[1])
