"""Rules that the document states only in prose, so that requests that schemathesis considers valid are valid."""

import json
import re
import unicodedata
from urllib.parse import unquote

import schemathesis

unseen = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def sound_node_id(value):
    """Makes a node id that the schema allows valid for the service: visible, normalized, and at most 256 bytes long."""
    if not isinstance(value, str) or not 1 <= len(value) <= 256 or re.search("[\x00-\x1f\x7f-\x9f]", value):
        return value
    seen = "".join(character for character in value if unicodedata.category(character) not in unseen)
    text = unicodedata.normalize("NFC", seen).strip()
    while len(text.encode()) > 256:
        text = text[:-1].strip()
    return text or "x"


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
    """A page that starts after a sealed name needs a seal of the running service."""
    after = query.get("after") if query else None
    return not (isinstance(after, str) and after.startswith("~"))


def drop_sealed(values, name):
    """A cursor is sealed with a key of the service, so a made-up cursor looks valid but is not."""
    value = values.get(name) if values else None
    if isinstance(value, str) and re.fullmatch("[A-Za-z0-9_-]{94}|[A-Za-z0-9_-]{266}", value, re.ASCII):
        del values[name]


def is_duration(value):
    return type(value) in (int, float) and 1 <= value < 2**31


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body if isinstance(case.body, dict) else {}
    # Shorten the wait in the campaign queue.
    if type(body.get("wait_ms")) in (int, float) and 50 <= body["wait_ms"] <= 60_000:
        body["wait_ms"] = 50
    # The service limits how far after_term may be above the highest term of a group.
    if type(body.get("after_term")) in (int, float) and 2**32 < body["after_term"] < 2**53:
        body["after_term"] = 2**32
    # The group in the body must equal the one in the path.
    if isinstance(body.get("group_id"), str) and len(body["group_id"]) <= 128:
        body["group_id"] = unquote((case.path_parameters or {}).get("group_id", body["group_id"]))
    # A schema limits characters, but the service limits bytes.
    if isinstance(body.get("checkpoint"), str) and len(body["checkpoint"]) <= 4096:
        body["checkpoint"] = body["checkpoint"].encode(errors="replace")[:4096].decode(errors="ignore")
    if "node_id" in body:
        body["node_id"] = sound_node_id(body["node_id"])
    if isinstance(body.get("allowed_nodes"), list):
        body["allowed_nodes"] = [sound_node_id(node) for node in body["allowed_nodes"]]
    # A group with a narrow range of durations would refuse leases that are valid elsewhere.
    policy = body.get("policy")
    if isinstance(policy, dict) and all(is_duration(value) for value in policy.values()):
        for name, value in {"min_ttl_ms": 1, "max_ttl_ms": 2**31 - 1}.items():
            if name in policy:
                policy[name] = value
    # A long poll waits for 25 s by default.
    if case.operation.path.endswith("/watch"):
        query = case.query or {}
        wait = query.get("wait_ms", "50")
        if isinstance(wait, str) and re.fullmatch("[1-5]?[0-9]{1,4}|60000", wait, re.ASCII):
            case.query = {**query, "wait_ms": str(min(int(wait), 50))}
        if case.query and "node_id" in case.query:
            case.query["node_id"] = sound_node_id(case.query["node_id"])
        drop_sealed(case.query, "cursor")
        drop_sealed(case.headers, "last-event-id")
