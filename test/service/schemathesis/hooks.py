"""What the document says in words only, so that what is taken for valid is valid."""

import json
import re
import unicodedata

import schemathesis
from hypothesis import strategies as st

letters = st.characters(categories=["Lu", "Ll", "Lo", "Nd", "Pd", "Po", "Sm"])
schemathesis.openapi.format(
    "node-id",
    st.text(letters, min_size=1, max_size=40)
    .map(lambda text: unicodedata.normalize("NFC", text))
    .filter(lambda text: 0 < len(text.encode()) <= 256),
)

poison = {"__proto__", "constructor", "prototype"}


def is_sound_metadata(value, levels=8):
    if isinstance(value, dict):
        return (
            levels > 0
            and poison.isdisjoint(value)
            and all(is_sound_metadata(inner, levels - 1) for inner in value.values())
        )
    if isinstance(value, list):
        return levels > 0 and all(is_sound_metadata(inner, levels - 1) for inner in value)
    return True


@schemathesis.hook
def filter_body(context, body):
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict):
        return True
    return is_sound_metadata(metadata) and len(json.dumps(metadata).encode()) <= 4096


@schemathesis.hook
def filter_query(context, query):
    """A page that begins behind a sealed name needs a seal of this very process."""
    after = query.get("after") if query else None
    return not (isinstance(after, str) and after.startswith("~"))


def is_duration(value):
    return type(value) in (int, float) and 1 <= value < 2**31


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body if isinstance(case.body, dict) else {}
    # Nobody waits in line for long.
    if type(body.get("wait_ms")) is int and 50 <= body["wait_ms"] <= 60_000:
        body["wait_ms"] = 50
    policy = body.get("policy")
    if isinstance(policy, dict):
        shortest, longest = policy.get("min_ttl_ms"), policy.get("max_ttl_ms")
        if is_duration(shortest) and is_duration(longest) and shortest > longest:
            policy["min_ttl_ms"], policy["max_ttl_ms"] = longest, shortest
    # A long poll waits for 25 s unless told otherwise.
    if case.operation.path.endswith("/watch"):
        query = case.query or {}
        wait = query.get("wait_ms", "50")
        if isinstance(wait, str) and re.fullmatch("[1-5]?[0-9]{1,4}|60000", wait, re.ASCII):
            case.query = {**query, "wait_ms": str(min(int(wait), 50))}
