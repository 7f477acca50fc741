//! Tests that every engine passes: the contract suite, which tests the contract in [`engine::contract`] case by case;
//! a comparison with the memory engine under random operations ([`model_test`]); and histories of conflicting clients
//! ([`history_test`]).
//!
//! The crate of an engine runs them from its own tests: [`every_case!`] adds the engine to the suite.

#![allow(missing_docs, reason = "the name of a case says what it checks")]
#![allow(clippy::wildcard_imports, reason = "each case uses most of the support")]
#![allow(async_fn_in_trait, reason = "tests do not send the futures to other threads")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failure is a failed test")]
#![allow(clippy::print_stdout, reason = "a seed that is not printed cannot be repeated")]

pub mod cases;
pub mod history_test;
pub mod model_test;
pub mod restart;
pub mod support;

/// Adds an engine to the contract suite, as a module of tests. `$open` opens a new, empty engine with the given clock,
/// and returns it with everything that must outlive it. If the machine lacks a requirement, `$open` prints a message
/// and returns `None`.
#[macro_export]
macro_rules! every_case {
    ($engine:ident, $open:expr) => {
        $crate::every_case!(@each suite ($engine, $open));
    };
    (@each $make:ident $with:tt) => {
        $crate::$make! {
            $with
            catalog:
                a_table_is_found_in_any_case_and_keeps_its_spelling,
                a_table_is_created_once_and_deleted_once,
                tables_are_listed_in_order_from_a_name_on,
                a_page_of_tables_ends_at_its_limit_and_names_the_next_match,
                metrics_tables_are_like_others_but_not_listed,
                accounts_do_not_see_each_other,
                accounts_are_known_by_their_tables_and_properties,
                one_of_many_creations_wins,
                every_operation_on_a_missing_table_reports_it,
                a_table_created_again_is_empty,
                deleting_a_large_table_takes_no_time;
            mutations:
                each_mutation_of_a_missing_entity,
                each_mutation_of_an_existing_entity,
                each_condition_that_is_not_met,
                a_refused_member_leaves_nothing_of_its_transaction,
                answers_come_in_the_order_of_the_mutations,
                the_stored_records_are_returned_if_asked_for,
                concurrent_merges_return_what_each_of_them_stored,
                the_answer_is_the_stored_timestamp,
                timestamps_grow_when_the_clock_goes_back,
                timestamps_differ_between_concurrent_transactions,
                one_of_many_inserts_of_an_entity_wins,
                no_concurrent_update_is_lost,
                an_entity_of_the_wider_limits_is_like_others;
            pages:
                entities_come_in_the_order_of_utf16_code_units,
                ranges_are_visited_in_order_and_nothing_else_is,
                many_ranges_are_read_as_if_they_were_one,
                a_page_starts_at_its_position,
                a_position_outlives_changes_around_it,
                the_limit_bounds_the_page_and_a_last_page_says_so,
                a_limit_of_zero_looks_for_a_match_only,
                a_page_ends_by_what_the_sink_takes_and_not_by_what_is_stored,
                a_sink_that_has_enough_ends_the_page,
                an_entity_that_a_sink_refuses_begins_the_next_page,
                the_filter_decides_and_the_look_ahead_obeys_it,
                successive_pages_return_every_entity_once,
                small_pages_are_parts_of_the_whole,
                a_deadline_in_the_past_still_makes_progress,
                a_deadline_ends_a_long_scan_before_its_end;
            isolation:
                a_page_never_shows_part_of_a_transaction,
                a_get_never_goes_back,
                a_page_is_one_snapshot,
                what_was_acknowledged_is_seen_at_once;
            policies:
                policies_are_replaced_as_a_whole_and_seen_at_once,
                policies_leave_the_entities_alone,
                policies_go_with_their_table;
            settings:
                settings_are_changed_one_by_one_and_seen_at_once,
                settings_go_with_their_table;
            retention:
                an_expired_entity_is_never_returned,
                an_expired_entity_meets_no_condition,
                the_timestamp_of_an_expired_entity_is_exceeded,
                the_property_of_the_retention_decides,
                only_expired_entities_are_swept;
            properties:
                an_update_replaces_the_sections_it_has,
                a_new_account_has_the_initial_properties,
                updates_of_different_sections_are_all_kept;
            figures:
                figures_follow_the_operations,
                a_purge_ends,
                a_closed_engine_is_reported_as_closed;
            closing:
                every_call_after_close_answers_closed,
                commits_on_their_way_are_answered_when_the_engine_closes;
        }
    };
}

/// Adds an engine to the cases about indexes, like [`every_case!`].
#[macro_export]
macro_rules! every_case_of_indexes {
    ($engine:ident, $open:expr) => {
        $crate::every_case_of_indexes!(@each suite ($engine, $open));
    };
    (@each $make:ident $with:tt) => {
        $crate::$make! {
            $with
            indexes:
                indexes_follow_the_settings,
                every_mutation_changes_the_index,
                a_query_with_an_index_is_like_one_without,
                entities_come_in_the_order_of_values,
                a_position_outlives_its_entity,
                an_expired_entity_is_found_in_no_index,
                a_page_of_an_index_is_one_snapshot,
                an_index_is_built_while_entities_change,
                too_many_hits_are_read_without_the_index,
                a_confined_page_depends_on_nothing_outside_its_range;
        }
    };
}

/// Adds an engine to the cases about change logs. `$open` opens a new, empty engine with the given clock, and returns
/// it with its change log and everything that must outlive them. If the machine lacks a requirement, `$open` prints a
/// message and returns `None`.
#[macro_export]
macro_rules! every_case_of_changes {
    ($engine:ident, $open:expr) => {
        $crate::every_case_of_changes!(@each suite_of_changes ($engine, $open));
    };
    (@each $make:ident $with:tt) => {
        $crate::$make! {
            $with
            changes:
                every_change_is_shown_in_order,
                a_selection_leaves_out_the_rest,
                entities_of_an_earlier_table_can_be_left_out,
                pages_are_bounded_and_lose_nothing,
                a_transaction_of_the_wider_limits_is_shown_as_a_whole,
                concurrent_commits_are_shown_once_and_in_order,
                a_position_is_found_by_its_time,
                what_is_announced_can_be_read,
                a_deleted_table_is_one_change,
                deletions_of_expired_entities_are_marked,
                a_log_that_has_dropped_nothing_is_kept_from_its_beginning;
        }
    };
}

/// Adds an engine to the cases about snapshots. `$opener` implements
/// [`OpensForSnapshots`](crate::cases::snapshots::OpensForSnapshots).
#[macro_export]
macro_rules! every_case_of_snapshots {
    ($engine:ident, $opener:expr) => {
        $crate::every_case_of_snapshots!(@each suite_of_snapshots ($engine, $opener));
    };
    (@each $make:ident $with:tt) => {
        $crate::$make! {
            $with
            snapshots:
                a_snapshot_is_of_one_instant_and_fills_an_engine,
                a_snapshot_of_nothing_fills_an_empty_engine,
                a_sink_ends_the_reading_of_a_snapshot,
                a_snapshot_is_read_while_its_engine_is_open;
        }
    };
}

/// Creates one test for each case. `$open` opens an engine and returns it with everything that must outlive it. If the
/// machine lacks a requirement, `$open` prints a message and returns `None`.
#[doc(hidden)]
#[macro_export]
macro_rules! suite {
    (($engine:ident, $open:expr) $($module:ident: $($case:ident),+;)+) => {
        mod $engine {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    let clock = $crate::support::ManualClock::at($crate::support::START_TICKS);
                    let Some((engine, _outlives)) = $open(clock.clone()) else { return };
                    $crate::boxed::$case(std::sync::Arc::new(engine), clock).await;
                }
            )+)+
        }
    };
}

/// Creates one test for each case about change logs.
#[doc(hidden)]
#[macro_export]
macro_rules! suite_of_changes {
    (($engine:ident, $open:expr) $($module:ident: $($case:ident),+;)+) => {
        mod $engine {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    let clock = $crate::support::ManualClock::at($crate::support::START_TICKS);
                    let Some((engine, log, _outlives)) = $open(clock.clone()) else { return };
                    $crate::boxed::$case(std::sync::Arc::new(engine), log, clock).await;
                }
            )+)+
        }
    };
}

/// Creates one test for each case about snapshots.
#[doc(hidden)]
#[macro_export]
macro_rules! suite_of_snapshots {
    (($engine:ident, $opener:expr) $($module:ident: $($case:ident),+;)+) => {
        mod $engine {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    $crate::boxed::$case(&$opener).await;
                }
            )+)+
        }
    };
}

/// Creates a function for each case, with the given parameters, that returns the case as a boxed future.
macro_rules! boxed_cases {
    ($parameters:tt $($module:ident: $($case:ident),+;)+) => {
        $($(boxed_case!($module, $case, $parameters);)+)+
    };
}

macro_rules! boxed_case {
    ($module:ident, $case:ident, ($($parameter:ident: $type:ty),+)) => {
        pub fn $case($($parameter: $type),+) -> BoxFuture<'static, ()> {
            Box::pin(crate::cases::$module::$case($($parameter),+))
        }
    };
}

use boxed_cases;

/// The cases as boxed futures, so that their code is generated in this crate and not in the tests of each engine.
pub mod boxed {
    use crate::cases::snapshots::OpensForSnapshots;
    use crate::support::ManualClock;
    use engine::{BoxFuture, ChangeLog, Engine};
    use std::sync::Arc;

    every_case!(@each boxed_cases (engine: Arc<dyn Engine>, clock: ManualClock));
    every_case_of_indexes!(@each boxed_cases (engine: Arc<dyn Engine>, clock: ManualClock));
    every_case_of_changes!(@each boxed_cases (engine: Arc<dyn Engine>, log: Arc<dyn ChangeLog>, clock: ManualClock));
    every_case_of_snapshots!(@each boxed_cases (opener: &'static dyn OpensForSnapshots));
}
