"""The detector of keys and tokens, on the real forms and on what only looks like them."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from rows import rows
from unabridged.archive.secrets import find_secrets, mask

# Made up, and in pieces: a scanner of this repository should not take them for real ones either.
BODY = "4fK9xQ2mZ7vB1nL8cT3wR6yP0sD5gH"
SECRETS = {
    "openai-key": ["sk-" + BODY, "sk-proj-" + BODY + "_aB-" + BODY, "sk-or-v1-" + "0a1b2c3d" * 8],
    "anthropic-key": ["sk-ant-" + "api03-" + BODY + "-" + BODY],
    "aws-key-id": ["AKIA" + "Q3EGRTYUIOPASDF7"],
    "github-token": ["ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8", "github_pat_" + "11ABCDEFG0" + BODY],
    "gitlab-token": ["glpat-" + "x9Y8z7W6v5U4t3S2r1Q0"],
    "slack-token": ["xoxb-" + "123456789012-abcdefABCDEF"],
    "slack-webhook": ["https://hooks." + "slack.com/services/T00000000/B00000000/abcdefghijkl"],
    "google-key": ["AIza" + "SyA1234567890abcdefghijklmnopqrstuv"],
    "stripe-key": ["sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc"],
    "huggingface-token": ["hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ012345"],
    "npm-token": ["npm_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"],
    "sendgrid-key": ["SG." + "abcdefghijklmnop.qrstuvwxyz0123456789AB"],
    "telegram-token": ["123456789:" + "AAF1a2b3c4d5e6f7g8h9i0jKlMnOpQrStUv"],
    "jwt": ["eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "dozjgNryP4J3jVmNHl0w5N"],
    "private-key": ["-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\n-----END RSA " + "PRIVATE KEY-----"],
}
IN_CONTEXT = {
    "postgres://app:hunter2secret@db.internal/x": "hunter2secret",
    "Authorization: Bearer abc.DEF-123456789012": "abc.DEF-123456789012",
    "curl -H 'authorization: Basic dXNlcjpwYXNzd29yZA=='": "dXNlcjpwYXNzd29yZA==",
    'password = "correct-horse-battery"': "correct-horse-battery",
    "DB_PASSWORD=Tr0ub4dor&3x": "Tr0ub4dor&3x",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzKEYABCDEF": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzKEYABCDEF",
    'api_key: "a1b2c3d4e5f6g7h8i9"': "a1b2c3d4e5f6g7h8i9",
    '{"client_secret": "q8Wz3xN5vB7m"}': "q8Wz3xN5vB7m",
    json.dumps({"arguments": json.dumps({"token": "z9y8x7w6v5u4t3"})}): "z9y8x7w6v5u4t3",
    "AccountKey=Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA==;Endpoint": "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA==",
}  # fmt: skip
LOOK_ALIKES = [
    "pip install sk-learn-contrib-packages-of-note",
    "task-sk-management",
    "the risk-averse-investor-of-many-years",
    "550e8400-e29b-41d4-a716-446655440000",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:" + "ab" * 32,
    "data:image/png;base64," + "iVBORw0KGgo" * 20,
    "AKIA is the prefix",
    "xoxo-love",
    "ghp_short",
    'api_key = os.environ["OPENAI_API_KEY"]',
    "token: ${GITHUB_TOKEN}",
    "password: ********",
    "password=<your-password>",
    "api_key='your-api-key-here'",
    "OPENAI_API_KEY=sk-...",
    "token_count: 1234567890123",
    "max_tokens = 4096",
    "tokens_limit: 170000abcdefgh9",
    "secret santa: everyone brings a gift",
    "password: str = Field()",
    "the password is required",
    "def get_token(self) -> str:",
    "https://example.com:8080/path@2x.png",
    "eyJ is how it starts",
    "passwords: none",
    "secret = secrets.token_hex(16)",
    "Bearer of bad news",
    "mailto:bob@example.com",
    "git@github.com:a/b.git",
    "key: value",
    "token = tokenizer.encode(text)",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "secret_name: my-app-credentials-2024",
    "const password = getPassword()",
]


@rows(("kind", "secret"), [(kind, secret) for kind, all_ in SECRETS.items() for secret in all_])
def test_every_known_form_is_found_where_it_stands_and_masked(kind: str, secret: str) -> None:
    for text in (secret, f"use {secret}, please", f'{{"x":"{secret}"}}', f"({secret})\n"):
        (span,) = find_secrets(text)
        assert (text[span.start : span.stop], span.kind) == (secret, kind)
        assert secret not in mask(text)
        assert mask(text) == text.replace(secret, f"[{kind} withheld]")


@rows(("text", "secret"), IN_CONTEXT.items())
def test_what_is_assigned_to_the_name_of_a_secret_is_one(text: str, secret: str) -> None:
    (span,) = find_secrets(text)
    assert text[span.start : span.stop] == secret


@rows("text", LOOK_ALIKES)
def test_look_alikes_are_left_alone(text: str) -> None:
    assert find_secrets(text) == []
    assert mask(text) == text


def test_several_secrets_in_one_text_are_all_found_in_order() -> None:
    first, second = SECRETS["github-token"][0], SECRETS["openai-key"][0]
    text = f"export A={first}\nexport B={second}\npassword: {BODY}"
    assert [span.kind for span in find_secrets(text)] == ["github-token", "openai-key", "password"]
    assert mask(text).count("withheld") == 3


@given(st.text() | st.sampled_from([*IN_CONTEXT, *(secret for all_ in SECRETS.values() for secret in all_)]), st.text())
def test_masking_twice_is_masking_once_and_spans_never_overlap(start: str, end: str) -> None:
    text = start + end
    spans = find_secrets(text)
    assert all(a.stop <= b.start for a, b in itertools.pairwise(spans))
    assert all(0 <= span.start < span.stop <= len(text) for span in spans)
    assert mask(mask(text)) == mask(text)
