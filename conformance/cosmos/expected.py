"""Where Rowhouse differs from what the official client's source packages contain, with the reasons."""

# These runs are in the packages of both versions.
DIFFERENT_RUNS = {
    "test_table_batch_cosmos.test_batch_inserts": "the service throttled the run",
    "test_table_batch_cosmos_async.test_new_invalid_key": "recorded from Table storage",
    "test_table_client_cosmos.test_service_client_create_table": "recorded from Table storage",
}

RECORDINGS = {f"{version}/{run}": reason for version in ("12.0.0", "12.2.0") for run, reason in DIFFERENT_RUNS.items()}

TABLE_NAMES = "names of tables have the characters and lengths of Table storage, and invalid ones its errors"
SECONDARY = "the secondary endpoint accepts no writes"
ORDER = "entities come in descending order of keys, and not in the order of their creation"
STORAGE = "sent to Table storage, which does not know the account"

# Cases of version 12.7.0 that fail.
SUITES = {
    "test_table_client_cosmos::test_table_name_errors_bad_chars": TABLE_NAMES,
    "test_table_client_cosmos::test_table_name_errors_bad_length": TABLE_NAMES,
    "test_table_client_cosmos_async::test_table_name_errors_bad_chars": TABLE_NAMES,
    "test_table_client_cosmos_async::test_table_name_errors_bad_length": TABLE_NAMES,
    "test_table_cosmos::test_create_table_underscore_name": TABLE_NAMES,
    "test_table_cosmos::test_create_table_unicode_name": TABLE_NAMES,
    "test_table_cosmos_async::test_create_table_underscore_name": TABLE_NAMES,
    "test_table_cosmos_async::test_create_table_unicode_name": TABLE_NAMES,
    "test_table_entity_cosmos::test_unicode_property_name": ORDER,
    "test_table_entity_cosmos_async::test_unicode_property_name": ORDER,
    "test_table_client_cosmos::test_table_client_location_mode": SECONDARY,
    "test_table_client_cosmos_async::test_table_client_location_mode": SECONDARY,
    "test_table_service_properties_cosmos::test_client_with_url_ends_with_table_name": STORAGE,
    "test_table_service_properties_cosmos_async::test_client_with_url_ends_with_table_name": STORAGE,
}

TOKENS = "requests a token from the vendor's login service"

# Cases that are not run.
SKIPPED = {
    "test_table_client_cosmos::test_table_client_with_token_credential": TOKENS,
    "test_table_client_cosmos::test_table_service_client_with_token_credential": TOKENS,
    "test_table_client_cosmos_async::test_table_client_with_token_credential": TOKENS,
    "test_table_client_cosmos_async::test_table_service_client_with_token_credential": TOKENS,
}
