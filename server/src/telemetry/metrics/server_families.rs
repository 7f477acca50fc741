//! The metrics of the server itself: requests, connections, admission, build.

use super::by_table::{OTHER, OUTCOMES, RequestCounters};
use super::metrics_page::{Family, MetricsPage, MetricsSnapshot};
use super::{Metrics, OUTCOME_COUNT, outcome_labels};
use crate::request::{CredentialKind, OperationKind};
use crate::telemetry::version;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn write(page: &mut MetricsPage<'_, '_>, snapshot: &MetricsSnapshot) -> fmt::Result {
    build(page, snapshot)?;
    requests(page, &snapshot.metrics)?;
    connections(page, snapshot)?;
    admission(page, snapshot)?;
    streams(page, snapshot)?;
    spans(page, snapshot)?;
    if let Some(now) = snapshot.now {
        snapshot.metrics.by_table.evict_idle(now);
    }
    accounts(page, &snapshot.metrics)?;
    tables(page, &snapshot.metrics)
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn build(page: &mut MetricsPage<'_, '_>, snapshot: &MetricsSnapshot) -> fmt::Result {
    page.gauges("build_info", "Always 1; the labels identify the build of the server", |family| {
        family.value(&version::facts(snapshot.metrics.revision), 1)
    })?;
    let help = "1 while the server accepts requests; 0 while it opens its data or stops, and while writes are refused";
    page.gauge("ready", help, u64::from(snapshot.is_ready))?;
    page.gauges("stage", "1 for the current stage of the server: opening, serving or stopping", |family| {
        ["opening", "serving", "stopping"]
            .iter()
            .try_for_each(|stage| family.value(&[("stage", *stage)], u64::from(*stage == snapshot.stage)))
    })
}

fn requests(page: &mut MetricsPage<'_, '_>, metrics: &Metrics) -> fmt::Result {
    let help = "Completed requests, by operation, HTTP status and error code; a failed batch has status 202 \
                and the code of the operation that failed it; if the client did not send its body, the code is aborted";
    page.counters("requests", help, |family| {
        for (operation, counts) in OperationKind::ALL.iter().zip(metrics.outcomes.chunks(OUTCOME_COUNT)) {
            for ((status, code), count) in outcome_labels().zip(counts).filter(|(_, count)| read(count) > 0) {
                let status = status.to_string();
                let labels = [("operation", operation.name()), ("status", &*status), ("code", code)];
                family.count(&labels, read(count))?;
            }
        }
        Ok(())
    })?;
    let help = "Time from reading the headers of a request until its response is ready, by operation; it includes waiting for the \
                client's body, but not sending the response";
    page.histogram("request_duration_seconds", help, |family| {
        for (operation, times) in OperationKind::ALL.iter().zip(&metrics.durations) {
            let times = times.read();
            if times.counts.iter().any(|count| *count > 0) {
                family.histogram_seconds(&[("operation", operation.name())], &times)?;
            }
        }
        Ok(())
    })?;
    let by_operation = |family: &mut Family<'_>, counts: &[AtomicU64]| {
        for (operation, count) in OperationKind::ALL.iter().zip(counts).filter(|(_, count)| read(count) > 0) {
            family.count(&[("operation", operation.name())], read(count))?;
        }
        Ok(())
    };
    let help = "Bytes read from request bodies, excluding headers";
    page.counters("request_bytes", help, |family| by_operation(family, &metrics.request_bytes))?;
    let help = "Bytes of response bodies, excluding headers";
    page.counters("response_bytes", help, |family| by_operation(family, &metrics.response_bytes))?;
    let help = "Entities that operations examined, whether or not they match a filter";
    page.counters("entities_examined", help, |family| by_operation(family, &metrics.entities_examined))?;
    page.counters("entities_returned", "Entities in responses to gets and queries", |family| {
        by_operation(family, &metrics.entities_returned)
    })?;
    page.counters("entities_written", "Entities that were inserted, changed or deleted", |family| {
        by_operation(family, &metrics.entities_written)
    })?;
    let help = "Expired entities of tables with a retention that this server deleted; no other counter includes them";
    page.counter("expired_entities_deleted", help, read(&metrics.expired_deleted))?;
    page.gauge(
        "requests_in_flight",
        "Requests whose headers have been read but whose response is not ready yet",
        read(&metrics.in_flight),
    )?;
    let help = "Requests whose client disconnected before the response was ready; no other counter includes them";
    page.counter("requests_abandoned", help, read(&metrics.abandoned))?;
    let help =
        "Requests refused because of their credential, by the kind of credential; anonymous means without a credential";
    page.counters("authentication_failures", help, |family| {
        let counts = CredentialKind::ALL.iter().zip(&metrics.authentication_failures);
        counts.into_iter().try_for_each(|(kind, count)| family.count(&[("kind", kind.name())], read(count)))
    })
}

fn connections(page: &mut MetricsPage<'_, '_>, snapshot: &MetricsSnapshot) -> fmt::Result {
    let counts = &snapshot.connections;
    page.gauge(
        "connections_open",
        "Open client connections, including idle ones and TLS handshakes",
        read(&counts.open),
    )?;
    page.counter("connections_accepted", "Accepted connections", read(&counts.accepted))?;
    page.counter("tls_handshake_failures", "TLS handshakes that failed or timed out", read(&counts.failed_handshakes))?;
    page.counter(
        "connections_stalled",
        "Connections that were closed because the client did not read its response",
        read(&counts.slow_readers),
    )?;
    let help = "Idle connections that were closed to free a slot or memory for another connection";
    page.counter("connections_displaced", help, read(&counts.displaced))?;
    let help = "Connections that were refused because their address had reached --max-connections-per-address";
    page.counter("connections_refused", help, read(&counts.refused))
}

fn admission(page: &mut MetricsPage<'_, '_>, snapshot: &MetricsSnapshot) -> fmt::Result {
    let Some((_, figures)) = &snapshot.service else { return Ok(()) };
    let help = "Requests refused as ServerBusy because a resource was exhausted for a second: memory for \
                bodies (--body-mib) or permits for requests in execution (--max-requests)";
    page.counters("admission_refused", help, |family| {
        family.count(&[("resource", "memory")], figures.memory_bytes.refused)?;
        family.count(&[("resource", "requests")], figures.requests.refused)
    })?;
    page.gauge("admission_requests", "Requests being executed, limited by --max-requests", figures.requests.used)?;
    page.gauge("admission_requests_limit", "Maximum number of requests being executed", figures.requests.limit)?;
    let help = "Memory reserved for the bodies of requests and responses in flight, limited by --body-mib";
    page.gauge("admission_memory_bytes", help, figures.memory_bytes.used)?;
    page.gauge("admission_memory_limit_bytes", "Maximum memory for bodies in flight", figures.memory_bytes.limit)
}

fn streams(page: &mut MetricsPage<'_, '_>, snapshot: &MetricsSnapshot) -> fmt::Result {
    let Some((figures, next)) = snapshot.service.as_ref().and_then(|(_, limits)| limits.streams.as_ref()) else {
        return Ok(());
    };
    page.gauge("change_streams_open", "Open streams of changes", figures.positions.len() as u64)?;
    let help = "Maximum number of streams of changes (--max-change-streams)";
    page.gauge("change_streams_limit", help, figures.streams_max as u64)?;
    let help = "Streams of changes that were refused because the maximum number was open";
    page.counter("change_streams_refused", help, figures.refused)?;
    let by_stream = |family: &mut Family<'_>, value: fn(u64, u64) -> u64| {
        figures.positions.iter().try_for_each(|(number, position)| {
            let number = number.to_string();
            family.value(&[("stream", &number)], value(*position, *next))
        })
    };
    let help =
        "Position in the change feed that an open stream reads next; the number of a closed stream is used again";
    page.gauges("change_stream_position", help, |family| by_stream(family, |position, _| position))?;
    let help = "Positions in the change feed that an open stream has not read yet";
    page.gauges("change_stream_lag", help, |family| by_stream(family, |position, next| next.saturating_sub(position)))
}

fn spans(page: &mut MetricsPage<'_, '_>, snapshot: &MetricsSnapshot) -> fmt::Result {
    let Some((exported, dropped)) = snapshot.spans else { return Ok(()) };
    page.counter("trace_spans_exported", "Spans that the OpenTelemetry collector accepted", exported)?;
    let help = "Spans that were dropped because the collector was slow or unreachable, or refused them";
    page.counter("trace_spans_dropped", help, dropped)
}

fn accounts(page: &mut MetricsPage<'_, '_>, metrics: &Metrics) -> fmt::Result {
    let accounts = metrics.by_table.accounts();
    let all: Vec<_> =
        accounts.iter().map(|(account, counters)| ([("account", account.as_str())], &**counters)).collect();
    let requests = "Requests for an account of this server, by outcome: success, client_error, throttled (503), server_error \
                    or aborted; accounts beyond the first 200 count as (other)";
    let families = [
        ("account_requests", requests),
        ("account_request_bytes", "Bytes of request bodies for an account"),
        ("account_response_bytes", "Bytes of response bodies for an account"),
    ];
    counters_of_all(page, families, &all)
}

fn tables(page: &mut MetricsPage<'_, '_>, metrics: &Metrics) -> fmt::Result {
    let tables = metrics.by_table.tables();
    let named =
        tables.iter().map(|entry| ([("account", entry.account.as_str()), ("table", &*entry.table)], &entry.counters));
    let other = metrics.by_table.other_tables().map(|counters| ([("account", OTHER), ("table", OTHER)], counters));
    let all: Vec<_> = named.chain(other).collect();
    let requests = "Requests for a table, by outcome; table names are in lower case. At most 1000 tables have their own \
                    counters; for all others, only successes are counted, as (other). Tables that are deleted, or not \
                    used for a day, are removed";
    let families = [
        ("table_requests", requests),
        ("table_request_bytes", "Bytes of request bodies for a table"),
        ("table_response_bytes", "Bytes of response bodies for a table"),
    ];
    counters_of_all(page, families, &all)
}

/// Writes the counters of accounts or tables by their labels, as three families: the outcomes, and the bytes in both
/// directions.
fn counters_of_all<const N: usize>(
    page: &mut MetricsPage<'_, '_>,
    [requests, request_bytes, response_bytes]: [(&str, &str); 3],
    all: &[([(&'static str, &str); N], &RequestCounters)],
) -> fmt::Result {
    page.counters(requests.0, requests.1, |family| {
        all.iter().try_for_each(|(labels, counters)| outcomes(family, labels, counters))
    })?;
    page.counters(request_bytes.0, request_bytes.1, |family| {
        all.iter().try_for_each(|(labels, counters)| family.count(labels, read(&counters.request_bytes)))
    })?;
    page.counters(response_bytes.0, response_bytes.1, |family| {
        all.iter().try_for_each(|(labels, counters)| family.count(labels, read(&counters.response_bytes)))
    })
}

fn outcomes(family: &mut Family<'_>, labels: &[(&'static str, &str)], counters: &RequestCounters) -> fmt::Result {
    for (outcome, count) in OUTCOMES.iter().zip(&counters.outcomes).filter(|(_, count)| read(count) > 0) {
        let labels: Vec<_> = labels.iter().copied().chain([("outcome", *outcome)]).collect();
        family.count(&labels, read(count))?;
    }
    Ok(())
}
