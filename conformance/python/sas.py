"""Requests authorized by a shared access signature, and tokens with arbitrary fields, signed or not."""

import datetime
import urllib.parse

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import generate_account_sas, generate_table_sas, ResourceTypes

from wire import VERSION, TableWire, Wire, signature

CANNOT = "This request is not authorized to perform this operation"


class TokenWire(Wire):
    """An endpoint that is accessed with a token in the query of every request."""

    def __init__(self, wire, token):
        super().__init__(wire.base, wire.account, wire.key)
        self.token = token

    def prepare(self, method, target, body, headers, accept, version, scheme):
        target += ("&" if "?" in target else "?") + self.token
        return super().prepare(method, target, body, {"x-ms-date": None, **(headers or {})}, accept, version, None)


def in_hours(hours):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)


def time_text(hours):
    """Returns the time the given number of hours from now, in the form used in tokens."""
    return in_hours(hours).strftime("%Y-%m-%dT%H:%M:%SZ")


def credential(wire):
    return AzureNamedKeyCredential(wire.account, wire.key)


def table_token(wire, table_name, permission=None, **kwargs):
    """Returns a table SAS from the official client, valid for an hour unless a policy or `expiry` specifies otherwise.
    """
    if "policy_id" not in kwargs:
        kwargs.setdefault("expiry", in_hours(1))
    return generate_table_sas(credential(wire), table_name, permission=permission, **kwargs)


def account_token(wire, resources, permission, **kwargs):
    """Returns an account SAS from the official client, valid for an hour unless `expiry` specifies otherwise."""
    types = ResourceTypes(service="s" in resources, container="c" in resources, object="o" in resources)
    kwargs.setdefault("expiry", in_hours(1))
    return generate_account_sas(credential(wire), types, permission, **kwargs)


def with_table_token(table, permission=None, **kwargs):
    """Returns the operations of a table, authorized by a table SAS."""
    return TableWire(TokenWire(table.wire, table_token(table.wire, table.name, permission, **kwargs)), table.name)


def with_account_token(table, resources, permission, **kwargs):
    """Returns the operations of a table, authorized by an account SAS."""
    return TableWire(TokenWire(table.wire, account_token(table.wire, resources, permission, **kwargs)), table.name)


def encode_token(fields):
    return "&".join(f"{name}={urllib.parse.quote(value, safe='')}" for name, value in fields.items())


def table_string_to_sign(account, fields):
    """Returns the string to sign of a table SAS (08 §2)."""
    field = lambda name: fields.get(name, "")
    prefix = "/table" if fields["sv"] >= "2015-02-21" else ""
    lines = [field("sp"), field("st"), field("se"), f"{prefix}/{account}/{field('tn').lower()}", field("si")]
    if fields["sv"] >= "2015-04-05":
        lines += [field("sip"), field("spr")]
    return "\n".join([*lines, field("sv"), field("spk"), field("srk"), field("epk"), field("erk")])


def delegated_string_to_sign(account, fields):
    """Returns the string to sign of a user delegation SAS (08 §11.3)."""
    names = ["skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid", "sip", "spr", "sv", "spk", "srk", "epk", "erk"]
    resource = f"/table/{account}/{fields['tn'].lower()}"
    first = [fields.get("sp", ""), fields.get("st", ""), fields.get("se", ""), resource]
    return "\n".join([*first, *(fields.get(name, "") for name in names)])


def account_string_to_sign(account, fields):
    """Returns the string to sign of an account SAS (08 §8)."""
    names = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"] + (["ses"] if fields["sv"] >= "2020-12-06" else [])
    return "\n".join([account, *(fields.get(name, "") for name in names), ""])


def signed(wire, make_string, **fields):
    """Returns a token with exactly the given fields, signed by the suite."""
    fields = {"sv": VERSION, **fields}
    fields = {name: value for name, value in fields.items() if value is not None}
    return encode_token({**fields, "sig": signature(wire.key, make_string(wire.account, fields))})


def own_table_token(wire, table_name, **fields):
    """Returns a table SAS signed by the suite; fields given as None are omitted."""
    return signed(wire, table_string_to_sign, **{"tn": table_name, "sp": "raud", "se": time_text(1), **fields})


def own_account_token(wire, **fields):
    """Returns an account SAS signed by the suite; fields given as None are omitted."""
    defaults = {"ss": "t", "srt": "sco", "sp": "rwdlacu", "se": time_text(1)}
    return signed(wire, account_string_to_sign, **{**defaults, **fields})
