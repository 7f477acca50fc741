"""Stored access policies and shared access signatures, as `azure-storage` 0.20 supports them at version 2014-02-14."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.storage import AccessPolicy, SharedAccessPolicy, SignedIdentifier, SignedIdentifiers

from clients import Failure, Missing, TableService, properties


def in_minutes(minutes):
    return (datetime.now(timezone.utc) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def stored(name, **policy):
    identifier = SignedIdentifier()
    identifier.id, identifier.access_policy = name, AccessPolicy(**policy)
    return identifier


def store(service, table, *policies):
    identifiers = SignedIdentifiers()
    identifiers.signed_identifiers.extend(policies)
    service.set_table_acl(table, identifiers)


def bearer(service, address, table, access_policy=None, identifier=None):
    """Returns a client that has only a shared access signature."""
    token = service.generate_shared_access_signature(table, SharedAccessPolicy(access_policy, identifier))
    return TableService(address.account, None, address.protocol, address.suffix, sas_token=token)


def test_no_policies(service, table):
    assert len(service.get_table_acl(table)) == 0
    service.set_table_acl(table)
    assert len(service.get_table_acl(table)) == 0


def test_policies_come_back(service, table):
    store(service, table, stored("first", start="2012-01-01T00:00:00Z", expiry="2030-01-01T00:00:00Z", permission="raud"),
          stored("second", expiry="2031-01-01T00:00:00Z", permission="r"))
    first, second = service.get_table_acl(table)
    assert (first.id, first.access_policy.permission) == ("first", "raud")
    assert first.access_policy.start.startswith("2012-01-01T00:00:00") and first.access_policy.expiry.startswith("2030-01-01T00:00:00")
    assert (second.id, second.access_policy.permission, second.access_policy.start) == ("second", "r", "")
    service.set_table_acl(table)
    assert len(service.get_table_acl(table)) == 0


def test_six_policies(service, table):
    with pytest.raises(Failure) as caught:
        store(service, table, *[stored(f"p{n}", expiry="2030-01-01T00:00:00Z", permission="r") for n in range(6)])
    assert "InvalidXmlDocument" in str(caught.value)


def test_policies_of_a_missing_table(service, new_name):
    with pytest.raises(Missing):
        service.get_table_acl(new_name())
    with pytest.raises(Missing):
        service.set_table_acl(new_name())


def test_signature_that_allows_everything(service, address, table):
    signed = bearer(service, address, table, AccessPolicy(in_minutes(-5), in_minutes(30), "raud"))
    signed.insert_entity(table, {"PartitionKey": "p", "RowKey": "r", "A": 1})
    signed.merge_entity(table, "p", "r", {"B": 2})
    signed.insert_or_replace_entity(table, "p", "s", {"C": 3})
    assert [properties(one) for one in signed.query_entities(table)] == [{"A": 1, "B": 2}, {"C": 3}]
    signed.delete_entity(table, "p", "r")
    assert [one.RowKey for one in service.query_entities(table)] == ["s"]


def test_signature_that_only_reads(service, address, table):
    service.insert_entity(table, {"PartitionKey": "p", "RowKey": "r", "A": 1})
    signed = bearer(service, address, table, AccessPolicy(in_minutes(-5), in_minutes(30), "r"))
    assert properties(signed.get_entity(table, "p", "r")) == {"A": 1}
    for refused in (lambda: signed.insert_entity(table, {"PartitionKey": "p", "RowKey": "s"}),
                    lambda: signed.update_entity(table, "p", "r", {"A": 2}), lambda: signed.delete_entity(table, "p", "r")):
        with pytest.raises(Failure):
            refused()
    assert properties(service.get_entity(table, "p", "r")) == {"A": 1}


def test_signature_under_a_stored_policy(service, address, table):
    store(service, table, stored("readers", expiry=in_minutes(30), permission="r"))
    service.insert_entity(table, {"PartitionKey": "p", "RowKey": "r"})
    signed = bearer(service, address, table, identifier="readers")
    assert len(signed.query_entities(table)) == 1
    service.set_table_acl(table)
    with pytest.raises(Failure):
        signed.query_entities(table)


def test_signature_confined_to_a_range(service, address, table):
    for n in range(6):
        service.insert_entity(table, {"PartitionKey": "p", "RowKey": f"{n}"})
    policy = AccessPolicy(in_minutes(-5), in_minutes(30), "r", "p", "2", "p", "4")
    signed = bearer(service, address, table, policy)
    assert [one.RowKey for one in signed.query_entities(table)] == ["2", "3", "4"]
    with pytest.raises(Missing):
        signed.get_entity(table, "p", "5")


def test_expired_signature(service, address, table):
    signed = bearer(service, address, table, AccessPolicy(in_minutes(-30), in_minutes(-5), "raud"))
    with pytest.raises(Failure) as caught:
        signed.query_entities(table)
    assert "AuthenticationFailed" in str(caught.value)
