"""The features of the service, the cases that belong to each feature, and the status of a feature on an endpoint.

This is the only place that assigns cases to features. A module (`test_etag`), a function (`test_etag::test_any`) or the
start of a parameter (`test_golden::test_exchange[batch`) stands for all cases under it; the longest name that matches a
case wins. A new case in a listed module therefore needs no entry. A case without a matching name is an error, and so is
a name without cases.
"""

import re
from collections import Counter
from dataclasses import dataclass

from expected_differences import ASSERTED

AS_THE_SERVICE, DIFFERENT, NOT_THERE, NOT_TESTED = "as the service", "different", "not there", "not tested"
# The possible outcomes of a case. `expected` is a difference that `expected_differences` lists.
PASSED, FAILED, EXPECTED, SKIPPED = "passed", "failed", "expected", "skipped"


@dataclass(frozen=True)
class Feature:
    """A feature, the names of its cases, and the cases that show whether the feature exists at all.

    A feature without `shown_by` is an aspect of other features, such as the messages of errors. Its status can be
    "different", but not "missing".
    """

    name: str
    cases: tuple
    shown_by: str | None = None


def feature(name, cases, shown_by=None):
    return Feature(name, tuple(cases.split()), shown_by)


FEATURES = [
    feature("Tables: create, get, delete", """
        test_table_names::test_tables_do_not_share_entities test_table_names::test_both_spellings_of_the_set
        test_table_names::test_both_spellings_of_the_entity_set test_table_names::test_extra_members_of_create_are_ignored
        test_table_names::test_name_is_free_after_deletion_or_says_being_deleted
        """, "test_table_names::test_tables_do_not_share_entities"),
    feature("Tables: names", """
        test_table_names test_errors_tables::test_create_with_bad_name
        test_errors_tables::test_entity_operation_on_malformed_table_name
        """),
    feature("Tables: list, with filter, `$top` and continuation", """
        test_query_tables test_filter_errors::test_tables_not_implemented test_filter_errors::test_tables_syntax_error
        test_filter_errors::test_tables_unknown_property
        """, "test_query_tables::test_select"),
    feature("Tables: errors", "test_errors_tables"),

    feature("Entities: usual patterns of applications", "test_design_patterns", "test_design_patterns::test_point_query"),
    feature("Entities: types, through a client", "test_types_client", "test_types_client::test_value_round_trips"),
    feature("Entities: types, their text in JSON", "test_types_json"),
    feature("Entities: keys, their order and spelling in addresses", "test_keys", "test_keys::test_client_round_trip"),
    feature("Entities: replace, merge, upsert", "test_upsert_merge", "test_upsert_merge::test_client_upsert"),
    feature("Entities: ETags and conditions", "test_etag", "test_etag::test_client_conditions"),
    feature("Entities: limits", """
        test_errors_entities::test_limit_reached test_errors_entities::test_limit_exceeded
        test_errors_entities::test_merge_result_exceeds_252_properties test_errors_entities::test_merge_result_exceeds_one_mib
        test_errors_entities::test_property_name_invalid test_errors_entities::test_insert_with_long_key
        test_errors_entities::test_upsert_with_long_key test_errors_entities::test_long_key_in_address_is_not_found
        """),
    feature("Entities: errors", "test_errors_entities"),

    feature("Queries: comparisons by type", """
        test_filter::test_literal test_filter::test_mismatch_counts_as_smaller test_filter::test_nan_is_equal_to_nothing
        test_filter::test_timestamp
        test_filter::test_any_character_in_a_string_literal
        """, "test_filter::test_literal"),
    feature("Queries: filters, their operators and spelling", "test_filter", "test_filter::test_key_equality_gives_a_set"),
    feature("Queries: errors", "test_filter_errors"),
    feature("Queries: projection (`$select`)", """
        test_query_options::test_select_does_not_limit_the_filter test_query_options::test_select_names
        test_query_options::test_select_is_parsed test_query_options::test_spelling_of_select
        test_query_options::test_select_on_a_point_read_keeps_the_etag_header test_query_options::test_select_works_over_pages
        test_json_bytes::test_select_none test_json_bytes::test_select_minimal test_json_bytes::test_empty_select_on_a_set
        test_json_bytes::test_empty_select_on_a_point_read_is_ignored test_filter_errors::test_too_many_selected_names
        """, "test_query_options::test_select_works_over_pages"),
    feature("Queries: `$top`, pages, continuation tokens", """
        test_query_options test_filter_errors::test_malformed_continuation_token test_filter_errors::test_top_not_a_number
        test_filter_errors::test_top_out_of_range
        """, "test_query_options::test_pages_make_up_the_whole"),

    feature("Transactions: through a client", "test_batch_client", "test_batch_client::test_every_operation_in_one_transaction"),
    feature("Transactions: spelling and framing of batches", "test_batch"),
    feature("Transactions: errors", "test_batch_errors"),

    feature("Formats: JSON, every level of metadata", "test_json_bytes", "test_json_bytes::test_empty_table_set"),
    feature("Formats: Accept, Content-Type, `$format`", "test_negotiation"),
    feature("Formats: Atom, before version 2015-12-11", "test_atom_entities test_atom_versions",
            "test_atom_versions::test_life_of_a_table"),
    feature("Formats: Atom in batches", "test_atom_batch test_atom_versions::test_batch_of_atom_parts",
            "test_atom_versions::test_batch_of_atom_parts"),
    feature("Formats: no Atom from version 2015-12-11 on", """
        test_atom_versions::TestAtomIsGone test_negotiation::test_atom_is_gone test_negotiation::test_atom_body_is_gone
        test_negotiation::test_atom_format_option_is_gone
        """),
    feature("HTTP: headers of answers", "test_headers"),
    feature("HTTP: `X-HTTP-Method`", """
        test_headers::test_method_override_delete test_headers::test_method_override_errors
        test_headers::test_method_override_given_twice
        """, "test_headers::test_method_override_delete"),
    feature("HTTP: malformed and oversized requests", "test_bad_input test_refused_bodies"),
    feature("HTTP: versions (`x-ms-version`)", """
        test_authentication::test_known_versions test_authentication::test_newer_versions
        test_authentication::test_malformed_version test_headers::test_version_is_echoed
        """),
    feature("HTTP: which error comes first", "test_precedence"),

    feature("Credentials: Shared Key", "test_authentication", "test_authentication::test_every_verb[SharedKey]"),
    feature("Credentials: Shared Key Lite", """
        test_authentication::test_every_verb[SharedKeyLite] test_authentication::test_missing_date[SharedKeyLite]
        test_authentication::test_date_header_instead_of_x_ms_date[SharedKeyLite]
        test_authentication::test_lite_signs_neither_verb_nor_type test_query_tables::test_health_check_with_lite_signature
        """, "test_authentication::test_every_verb[SharedKeyLite]"),
    feature("Credentials: account SAS", """
        test_sas::test_account_permissions test_sas::test_account_permissions_on_entities
        test_sas::test_account_sas_signed_and_still_refused test_sas::test_signed_versions_of_an_account_sas
        test_sas::test_services test_sas::test_no_account_sas_reaches_the_policies test_plain_use::test_account_sas
        """, "test_plain_use::test_account_sas"),
    feature("Credentials: table SAS", "test_sas test_plain_use::test_table_sas", "test_plain_use::test_table_sas"),
    feature("Credentials: key ranges of a SAS", "test_sas_ranges test_plain_use::test_key_range", "test_plain_use::test_key_range"),
    feature("Credentials: stored access policies", "test_acl test_plain_use::test_stored_access_policy",
            "test_plain_use::test_stored_access_policy"),
    feature("Credentials: bearer tokens", "test_bearer", "test_bearer"),

    feature("Service: properties", "test_service_properties test_plain_use::test_service_properties",
            "test_plain_use::test_service_properties"),
    feature("Service: CORS", "test_cors test_plain_use::test_cors", "test_plain_use::test_cors"),
    feature("Service: statistics, the secondary endpoint", """
        test_service_properties::test_statistics_to_the_byte test_service_properties::test_statistics_through_the_client
        test_service_properties::test_statistics_are_for_the_secondary_endpoint
        test_service_properties::test_the_secondary_endpoint_reads
        test_service_properties::test_the_secondary_endpoint_does_not_write test_plain_use::test_statistics
        """, "test_plain_use::test_statistics"),
    feature("Service: metrics of Storage Analytics", "test_analytics", "test_analytics"),
    feature("Service: throttling (503)", "test_throttling", "test_throttling"),

    feature("To the byte: operations on tables", """
        test_golden::test_exchange[create_table test_golden::test_exchange[delete_table test_golden::test_exchange[get_table
        test_golden::test_exchange[query_tables
        """),
    feature("To the byte: operations on entities", """
        test_golden::test_exchange[get_entity test_golden::test_exchange[insert_entity test_golden::test_exchange[update_entity
        test_golden::test_exchange[merge_entity test_golden::test_exchange[insert_or_merge_entity
        test_golden::test_exchange[insert_or_replace_entity test_golden::test_exchange[delete_entity
        test_golden::test_exchange[query_entities
        """),
    feature("To the byte: transactions", "test_golden::test_exchange[batch"),
    feature("To the byte: policies, properties, statistics, CORS", """
        test_golden::test_exchange[get_table_acl test_golden::test_exchange[set_table_acl
        test_golden::test_exchange[get_service_properties test_golden::test_exchange[set_service_properties
        test_golden::test_exchange[get_service_stats test_golden::test_exchange[preflight
        """),
    feature("To the byte: errors", "test_golden::test_exchange[errors"),
]

# Cases that test the suite itself or Rowhouse's own commands and pages. They show nothing about an endpoint.
OTHER_CASES = tuple("""
    test_features test_signing test_golden::test_there_is_an_exchange_of_every_operation_format_and_class
    test_documents test_files test_metrics test_self_signed
    """.split())

OTHER = Feature("(not about the endpoint)", OTHER_CASES)


def stands_for(name, case):
    """Returns true if a name is this case, or the module, function or start of a parameter that it belongs to."""
    return case.startswith(name) and (name == case or case[len(name):].startswith(("::", "[", "/")))


def longest_fit(names, case):
    """Returns the longest of the names that stands for a case, or None."""
    return max((name for name in names if stands_for(name, case)), key=len, default=None)


def owners_of(features):
    """Returns the feature to which each name belongs."""
    owners = {}
    for feature in features:
        for name in feature.cases:
            if name in owners:
                raise LookupError(f"{name} belongs to two features: {owners[name].name}; {feature.name}")
            owners[name] = feature
    return owners


OWNERS = owners_of([*FEATURES, OTHER])


def owning_name(case, owners=OWNERS):
    """Returns the name in the lists above that covers a case such as `test_etag::test_any[PUT]`."""
    name = longest_fit(owners, case)
    if name is None:
        raise LookupError(f"{case} belongs to no feature: add its module or function to conformance/python/features.py")
    return name


def case_of_node(node_id):
    """Converts the name of a case from pytest's form, `…/test_etag.py::test_any[PUT]`, to the form used here."""
    return re.sub(r"^(?:[^\[]*/)?(\w+)\.py::", r"\1::", node_id)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one case, with the reason for an expected difference or the first line of the failure."""

    kind: str
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """The outcomes of the cases of one feature."""

    feature: str
    status: str
    counts: Counter
    reasons: tuple

    @property
    def cases(self):
        return sum(self.counts.values())

    @property
    def short(self):
        """Returns the status, and how many of the cases that were not skipped passed."""
        if self.status != DIFFERENT:
            return self.status
        return f"{DIFFERENT} ({self.counts[PASSED]} of {self.cases - self.counts[SKIPPED]} cases)"

    @property
    def text(self):
        """Returns the same text with the reasons for known differences."""
        return ": ".join([self.short, *(["; ".join(self.reasons)] if self.reasons else [])])


def judged(case, outcome, asserted):
    """Returns the outcome relative to the service, even for a case that asserts an intended difference of Rowhouse."""
    name = longest_fit(asserted, case)
    if name is None or outcome.kind == SKIPPED:
        return outcome
    # The case does not show whether an endpoint that fails here behaves like the service.
    return Outcome(EXPECTED, asserted[name]) if outcome.kind == PASSED else Outcome(SKIPPED)


def status_of(counts, shown):
    """Returns the status of a feature, given the outcomes of its cases and of the cases that show whether it exists."""
    if not counts[PASSED] + counts[FAILED] + counts[EXPECTED]:
        return NOT_TESTED
    if not counts[FAILED] + counts[EXPECTED]:
        return AS_THE_SERVICE
    return NOT_THERE if shown[FAILED] and not shown[PASSED] else DIFFERENT


def rows(outcomes, features=FEATURES, asserted=ASSERTED):
    """Returns the rows of the table, in the order of the features, given the outcome of every case by name.

    Every case must belong to a feature, and every name in the lists must match at least one case.
    """
    owners = owners_of([*features, OTHER])
    names = {case: owning_name(case, owners) for case in outcomes}
    unused = set(owners) - set(names.values()) - set(OTHER_CASES)
    unused |= set(asserted) - {longest_fit(asserted, case) for case in outcomes}
    if unused:
        raise LookupError(f"features.py or expected_differences.py has names without cases: {', '.join(sorted(unused))}")
    table = []
    for feature in features:
        own = {case: judged(case, outcomes[case], asserted) for case, name in names.items() if owners[name] is feature}
        shown = Counter(outcome.kind for case, outcome in own.items() if feature.shown_by and stands_for(feature.shown_by, case))
        if feature.shown_by and not shown:
            raise LookupError(f"{feature.name}: {feature.shown_by} is not one of its cases")
        counts = Counter(outcome.kind for outcome in own.values())
        reasons = tuple(dict.fromkeys(outcome.reason for outcome in own.values() if outcome.kind == EXPECTED))
        table.append(Row(feature.name, status_of(counts, shown), counts, reasons))
    return table
