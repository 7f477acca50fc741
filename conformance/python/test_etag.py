"""ETags and conditional requests (01 §7 and §8)."""

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import UpdateMode

from expect import BOTH_CONDITIONS, bad_etag, check_etag, check_problem, check_refused, check_status, etag_of_timestamp
from wire import FULL

WRITING = [pytest.param("PUT", id="update"), pytest.param("MERGE", id="merge"), pytest.param("PATCH", id="patch")]
CONDITIONED = WRITING + [pytest.param("DELETE", id="delete")]
STALE = "W/\"datetime'2001-01-01T00%3A00%3A00.1234567Z'\""


def body_of(verb):
    return None if verb == "DELETE" else {"New": 2}


@pytest.fixture
def etag(shared, key):
    """Returns the ETag of a new entity under `key`."""
    return check_etag(check_status(shared.insert({"PartitionKey": key, "RowKey": "r", "Old": 1}), 201))


def test_same_text_everywhere(shared, key, etag):
    point = shared.point(key, "r")
    entity = point.json()
    [queried] = shared.query({"$filter": f"PartitionKey eq '{key}'"}).json()["value"]
    full = shared.point(key, "r", accept=FULL).json()
    texts = [etag, check_etag(point), entity["odata.etag"], queried["odata.etag"], full["odata.etag"]]
    assert set(texts) == {etag_of_timestamp(entity["Timestamp"])}


@pytest.mark.parametrize("verb", CONDITIONED)
def test_equal(shared, key, etag, verb):
    check_status(shared.write(verb, key, "r", body_of(verb), if_match=etag), 204)


@pytest.mark.parametrize("verb", CONDITIONED)
def test_equal_lower_case_prefix(shared, key, etag, verb):
    check_status(shared.write(verb, key, "r", body_of(verb), if_match="w" + etag[1:]), 204)


@pytest.mark.parametrize("verb", CONDITIONED)
def test_any(shared, key, etag, verb):
    del etag
    check_status(shared.write(verb, key, "r", body_of(verb), if_match="*"), 204)


@pytest.mark.parametrize("verb", WRITING)
def test_absent_is_an_upsert(shared, key, etag, verb):
    del etag
    check_status(shared.write(verb, key, "r", {"New": 2}), 204)
    check_status(shared.write(verb, key, "other", {"New": 2}), 204)


def test_absent_on_delete(shared, key, etag):
    del etag
    assert check_refused(shared.delete(key, "r", if_match=None)).status == 400
    assert shared.stored(key, "r") == {"Old": 1}


@pytest.mark.parametrize("verb", CONDITIONED)
def test_not_equal(shared, key, etag, verb):
    del etag
    answer = shared.write(verb, key, "r", body_of(verb), if_match=STALE)
    check_problem(answer, 412, "UpdateConditionNotSatisfied", form="json")
    assert shared.stored(key, "r") == {"Old": 1}


FOREIGN = ['W/"datetime\'\'2017-04-01T01%3A07%3A23.8881885Z\'\'"', 'W/"0x5B168C7B6E589D2"', 'W/""']


@pytest.mark.parametrize("verb", CONDITIONED)
@pytest.mark.parametrize("value", FOREIGN, ids=["doubled-quotes", "other-form", "empty-text"])
def test_not_of_this_service(shared, key, etag, verb, value):
    del etag
    answer = shared.write(verb, key, "r", body_of(verb), if_match=value)
    check_problem(answer, 412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.", form="json")
    assert answer.header("Cache-Control") is None
    assert shared.stored(key, "r") == {"Old": 1}


@pytest.mark.parametrize("verb", CONDITIONED)
def test_stale_after_a_write(shared, key, etag, verb):
    check_status(shared.write("MERGE", key, "r", {"Old": 1}, if_match=etag), 204)
    answer = shared.write(verb, key, "r", body_of(verb), if_match=etag)
    check_problem(answer, 412, "UpdateConditionNotSatisfied", form="json")


MALFORMED = {
    "strong": "\"datetime'2001-01-01T00%3A00%3A00Z'\"",
    "unquoted": "W/abc",
    "bare": "abc",
    "no-weak-mark": "datetime'2001-01-01T00%3A00%3A00Z'",
    "list": 'W/"a", W/"b"',
    "unclosed": 'W/"abc',
    "quoted-any": '"*"',
}


@pytest.mark.parametrize("verb", CONDITIONED)
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(shared, key, etag, verb, name):
    del etag
    value = MALFORMED[name]
    answer = shared.write(verb, key, "r", body_of(verb), if_match=value)
    check_problem(answer, 400, "InvalidInput", bad_etag(value), form="json")
    assert shared.stored(key, "r") == {"Old": 1}


@pytest.mark.parametrize("verb", CONDITIONED)
def test_strong_form_of_the_current_etag(shared, key, etag, verb):
    value = etag.removeprefix("W/")
    answer = shared.write(verb, key, "r", body_of(verb), if_match=value)
    check_problem(answer, 400, "InvalidInput", bad_etag(value), form="json")


@pytest.mark.parametrize("verb", ["PUT", "DELETE"])
def test_if_none_match(shared, key, etag, verb):
    del etag
    answer = shared.write(verb, key, "r", body_of(verb), headers={"If-None-Match": "*"})
    problem = check_problem(answer, 400, "InvalidInput", form="json")
    for part in ("If-None-Match", f"HTTP header cannot be specified for {verb} operations."):
        assert part in problem.message


@pytest.mark.parametrize("verb", ["PUT", "DELETE"])
def test_if_match_with_if_none_match(shared, key, etag, verb):
    answer = shared.write(verb, key, "r", body_of(verb), if_match=etag, headers={"If-None-Match": STALE})
    check_problem(answer, 400, "InvalidInput", BOTH_CONDITIONS, form="json")


def test_if_match_on_insert_is_ignored(shared, key):
    answer = shared.insert({"PartitionKey": key, "RowKey": "r"}, headers={"If-Match": STALE})
    check_status(answer, 201)


def test_no_etag_where_there_is_none(wire, shared, key, etag):
    del etag
    assert shared.query().header("ETag") is None
    assert wire.send("GET", f"/Tables('{shared.name}')").header("ETag") is None
    assert shared.delete(key, "r").header("ETag") is None


def test_every_write_changes_it(shared, key, etag):
    seen = [etag]
    for _ in range(10):
        for verb, if_match in (("PUT", None), ("MERGE", "*"), ("PATCH", seen[-1]), ("PUT", "*")):
            if if_match not in (None, "*"):
                if_match = seen[-1]
            answer = check_status(shared.write(verb, key, "r", {"Same": 1}, if_match=if_match), 204)
            seen.append(check_etag(answer))
    assert len(set(seen)) == len(seen)
    assert shared.point(key, "r").header("ETag") == seen[-1]


def test_timestamp_never_goes_back(shared, key, etag):
    del etag
    previous = shared.point(key, "r").json()["Timestamp"]
    for number in range(20):
        shared.write("MERGE", key, "r", {"N": number}, if_match="*")
        current = shared.point(key, "r").json()["Timestamp"]
        assert normal(current) > normal(previous)
        previous = current


def normal(timestamp):
    """Returns a Timestamp with seven fractional digits, so that string order matches time order."""
    seconds, _, digits = timestamp.removesuffix("Z").partition(".")
    return f"{seconds}.{digits:0<7}"


def test_delete_and_insert_again_gives_another(shared, key, etag):
    check_status(shared.delete(key, "r"), 204)
    again = check_etag(shared.insert({"PartitionKey": key, "RowKey": "r", "Old": 1}))
    assert again != etag
    answer = shared.delete(key, "r", if_match=etag)
    check_problem(answer, 412, "UpdateConditionNotSatisfied", form="json")


def test_client_conditions(client):
    client.create_entity({"PartitionKey": "p", "RowKey": "r", "A": 1})
    first = client.get_entity("p", "r")
    second = client.update_entity({**first, "A": 2}, mode=UpdateMode.REPLACE, etag=first.metadata["etag"],
                                  match_condition=MatchConditions.IfNotModified)
    assert second["etag"] != first.metadata["etag"]
    stale = {"etag": first.metadata["etag"], "match_condition": MatchConditions.IfNotModified}
    with pytest.raises(ResourceModifiedError) as raised:
        client.update_entity({**first, "A": 3}, **stale)
    assert raised.value.error_code == "UpdateConditionNotSatisfied"
    with pytest.raises(HttpResponseError):
        client.delete_entity(first, **stale)
    client.delete_entity(first, etag=second["etag"], match_condition=MatchConditions.IfNotModified)
    with pytest.raises(ResourceNotFoundError):
        client.get_entity("p", "r")
