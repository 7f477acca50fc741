//! The settings of traces, from the environment variables that OpenTelemetry defines.

use crate::outgoing::without_secrets;
use anyhow::{Context, bail, ensure};
use http::{HeaderName, HeaderValue, Uri};
use model::limits::{TRACE_BATCH_SPANS_DEFAULT, TRACE_QUEUE_SPANS_DEFAULT, TRACE_QUEUE_SPANS_MAX};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tracing::warn;

pub(crate) struct TraceSettings {
    pub(super) endpoint: Uri,
    /// The headers of each batch. They often contain a credential, so they are never shown.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) timeout: Duration,
    /// A file with certificate authorities that are trusted in addition to the system's authorities.
    pub(super) certificate: Option<PathBuf>,
    pub(super) resource: Vec<(String, String)>,
    pub(super) sampler: Sampler,
    /// The time that a span waits for other spans before it is sent.
    pub(super) delay: Duration,
    pub(super) queue_spans_max: usize,
    pub(super) batch_spans_max: usize,
}

impl fmt::Debug for TraceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceSettings").field("sampler", &self.sampler).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampler {
    /// Whether a client that has begun a trace decides if its requests are traced.
    follows_parent: bool,
    /// The share of the other requests, from 0 to 1.
    share: f64,
}

impl Sampler {
    /// Returns true if the request with the given trace ID is traced. All servers make the same decision for one trace.
    pub(super) fn samples(self, trace_id: u128, parent: Option<bool>) -> bool {
        match parent {
            Some(is_sampled) if self.follows_parent => is_sampled,
            _ if self.share >= 1.0 => true,
            _ if self.share <= 0.0 => false,
            _ => {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
                let bound = (self.share * 2f64.powi(63)) as u64;
                // The lower half without its highest bit, as in other implementations.
                #[allow(clippy::cast_possible_truncation, reason = "only half of the ID is used")]
                let low = trace_id as u64 >> 1;
                low < bound
            }
        }
    }

    fn parse(name: &str, argument: Option<&str>) -> anyhow::Result<Self> {
        let (follows_parent, kind) = match name.strip_prefix("parentbased_") {
            Some(kind) => (true, kind),
            None => (false, name),
        };
        let share = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => {
                let text = argument.unwrap_or("1");
                let share = text.trim().parse().ok().filter(|share| (0.0..=1.0).contains(share));
                share.with_context(|| format!("OTEL_TRACES_SAMPLER_ARG is '{text}': give a share from 0 to 1"))?
            }
            _ => bail!(
                "OTEL_TRACES_SAMPLER is '{name}': give always_on, always_off, traceidratio, or one of these after \
                 parentbased_"
            ),
        };
        Ok(Self { follows_parent, share })
    }
}

impl TraceSettings {
    /// Returns the settings that the variables describe, or `None` if traces are off.
    pub(crate) fn from_environment() -> anyhow::Result<Option<Self>> {
        Self::new(|name| std::env::var(name).ok())
    }

    /// Like [`Self::from_environment`], but with variables from any source. An empty variable counts as not set.
    fn new(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Option<Self>> {
        let variable =
            |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let of_traces = |name: &str| {
            let special = variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
            special.or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        let endpoint = match (variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), variable("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            _ if is_off => return Ok(None),
            (Some(endpoint), _) => endpoint,
            (None, Some(endpoint)) => format!("{}/v1/traces", endpoint.trim_end_matches('/')),
            (None, None) => return Ok(None),
        };
        let endpoint = address(&endpoint)?;
        match of_traces("PROTOCOL").as_deref() {
            None | Some("http/json") => {}
            Some("http/protobuf") => warn!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf, but traces are sent as http/json, which collectors accept at the same URL"
            ),
            Some(other) => {
                bail!("OTEL_EXPORTER_OTLP_PROTOCOL is '{other}', which is not supported: give http/json")
            }
        }
        if of_traces("COMPRESSION").is_some_and(|kind| kind != "none") {
            warn!("traces are sent without compression, although OTEL_EXPORTER_OTLP_COMPRESSION is set");
        }
        let number = |name: &str, default: u64| match variable(name) {
            None => Ok(default),
            Some(text) => text.parse().with_context(|| format!("{name} is '{text}': give a whole number")),
        };
        let milliseconds = of_traces("TIMEOUT").map_or(Ok(10_000), |text| {
            text.parse()
                .with_context(|| format!("OTEL_EXPORTER_OTLP_TIMEOUT is '{text}': give a number of milliseconds"))
        })?;
        let queue_spans_max = number("OTEL_BSP_MAX_QUEUE_SIZE", TRACE_QUEUE_SPANS_DEFAULT as u64)?;
        let queue_spans_max = usize::try_from(queue_spans_max).unwrap_or(usize::MAX).clamp(1, TRACE_QUEUE_SPANS_MAX);
        let batch_spans_max = number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", TRACE_BATCH_SPANS_DEFAULT as u64)?;
        let batch_spans_max = usize::try_from(batch_spans_max).unwrap_or(usize::MAX).clamp(1, queue_spans_max);
        let sampler = variable("OTEL_TRACES_SAMPLER").unwrap_or_else(|| "parentbased_always_on".to_owned());
        Ok(Some(Self {
            endpoint,
            headers: of_traces("HEADERS").map_or(Ok(Vec::new()), |text| headers(&text))?,
            timeout: Duration::from_millis(milliseconds),
            certificate: of_traces("CERTIFICATE").map(PathBuf::from),
            resource: resource(variable("OTEL_SERVICE_NAME"), variable("OTEL_RESOURCE_ATTRIBUTES").as_deref())?,
            sampler: Sampler::parse(&sampler, variable("OTEL_TRACES_SAMPLER_ARG").as_deref())?,
            delay: Duration::from_millis(number("OTEL_BSP_SCHEDULE_DELAY", 5_000)?.max(1)),
            queue_spans_max,
            batch_spans_max,
        }))
    }

    /// Returns the endpoint without credentials, for the log.
    pub(crate) fn endpoint_text(&self) -> String {
        without_secrets(&self.endpoint)
    }
}

fn address(text: &str) -> anyhow::Result<Uri> {
    let uri: Option<Uri> = text.parse().ok();
    let has_user = uri.as_ref().and_then(Uri::authority).is_some_and(|authority| authority.as_str().contains('@'));
    // A credential in the URL would not be sent. The error does not show the URL, because it may contain a credential.
    ensure!(
        !has_user,
        "the URL of the OpenTelemetry collector contains a user name or a password: put the credential into \
         OTEL_EXPORTER_OTLP_HEADERS"
    );
    let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
    uri.context("the URL of the OpenTelemetry collector is invalid: give one such as http://127.0.0.1:4318")
}

/// Parses pairs such as `a=b,c=d`, whose values are percent-encoded.
fn pairs(text: &str) -> impl Iterator<Item = Option<(&str, String)>> {
    text.split(',').filter(|pair| !pair.trim().is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim(), value.into_owned())).filter(|(name, _)| !name.is_empty())
    })
}

fn headers(text: &str) -> anyhow::Result<Vec<(HeaderName, HeaderValue)>> {
    // The value is not shown, because it may be a credential.
    const FORM: &str = "OTEL_EXPORTER_OTLP_HEADERS is malformed: give name=value,name=value";
    let header = |pair: Option<(&str, String)>| {
        let (name, value) = pair.context(FORM)?;
        let mut value = HeaderValue::from_str(&value).ok().context(FORM)?;
        value.set_sensitive(true);
        Ok((name.parse().ok().context(FORM)?, value))
    };
    pairs(text).map(header).collect()
}

fn resource(service: Option<String>, text: Option<&str>) -> anyhow::Result<Vec<(String, String)>> {
    let mut attributes = Vec::new();
    for pair in pairs(text.unwrap_or_default()) {
        let (name, value) = pair.context("OTEL_RESOURCE_ATTRIBUTES is malformed: give name=value,name=value")?;
        ensure!(!attributes.iter().any(|(known, _)| known == name), "OTEL_RESOURCE_ATTRIBUTES names {name} twice");
        attributes.push((name.to_owned(), value));
    }
    let mut set = |name: &str, value: Option<String>, default: &str| {
        let known = attributes.iter().position(|(known, _)| known == name);
        match (known, value) {
            (Some(known), Some(value)) => {
                if let Some((_, old)) = attributes.get_mut(known) {
                    *old = value;
                }
            }
            (Some(_), None) => {}
            (None, value) => attributes.push((name.to_owned(), value.unwrap_or_else(|| default.to_owned()))),
        }
    };
    set("service.name", service, "rowhouse");
    set("service.version", None, env!("CARGO_PKG_VERSION"));
    set("telemetry.sdk.name", Some("rowhouse".to_owned()), "");
    set("telemetry.sdk.language", Some("rust".to_owned()), "");
    set("telemetry.sdk.version", Some(env!("CARGO_PKG_VERSION").to_owned()), "");
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> anyhow::Result<Option<TraceSettings>> {
        TraceSettings::new(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn traces_are_off_unless_a_collector_is_named() {
        const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/");
        assert!(settings(&[]).unwrap().is_none());
        assert!(settings(&[("OTEL_SERVICE_NAME", "x"), ("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap().is_none());
        assert!(settings(&[ENDPOINT, ("OTEL_SDK_DISABLED", "True")]).unwrap().is_none());
        assert!(settings(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")]).unwrap().is_none());
        let endpoint = |variables: &[_]| settings(variables).unwrap().unwrap().endpoint_text();
        assert_eq!(endpoint(&[ENDPOINT]), "http://c:4318/v1/traces");
        assert_eq!(endpoint(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/x")]), "https://t/x");
    }

    #[test]
    fn variables_are_read_and_those_of_traces_win() {
        let settings = settings(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=general"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=a%20secret , x-more=1"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_SERVICE_NAME", "tables"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment=a%2Cb"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "7"),
        ]);
        let settings = settings.unwrap().unwrap();
        let value = |name: &str| settings.headers.iter().find(|(known, _)| known == name).unwrap().1.to_str().unwrap();
        assert_eq!((value("api-key"), value("x-more"), settings.headers.len()), ("a secret", "1", 2));
        assert!(!format!("{settings:?}").contains("secret"));
        let resource = |name: &str| settings.resource.iter().find(|(known, _)| known == name).unwrap().1.as_str();
        assert_eq!((resource("service.name"), resource("deployment.environment")), ("tables", "a,b"));
        assert_eq!((settings.timeout.as_millis(), settings.queue_spans_max, settings.batch_spans_max), (250, 7, 7));
        assert_eq!(settings.sampler, Sampler { follows_parent: false, share: 0.25 });
    }

    #[test]
    fn invalid_variables_are_refused_and_credentials_stay_hidden() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "se cret=1"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_TRACES_SAMPLER", "sometimes"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@collector:4318"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://secret@collector"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a"),
        ] {
            let given = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c"), (name, value)];
            let given = if name.ends_with("ENDPOINT") { &given[1..] } else { &given[..] };
            let error = format!("{:#}", settings(given).unwrap_err());
            assert!(!error.contains("secret") && !error.contains("se cret"), "{error}");
        }
    }

    #[test]
    fn samplers_take_their_share() {
        let sampler = |name, argument| Sampler::parse(name, argument).unwrap();
        let ids = (0..1000_u128).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let quarter = sampler("parentbased_traceidratio", Some("0.25"));
        let taken = ids.filter(|id| quarter.samples(*id, None)).count();
        assert!((200..300).contains(&taken), "{taken}");
        let taken = (0..1000).filter(|_| quarter.samples(super::super::new_trace_id(), None)).count();
        assert!((200..300).contains(&taken), "{taken} of the IDs that are generated here");
        assert!(quarter.samples(u128::MAX, Some(true)) && !quarter.samples(0, Some(false)));
        assert!(sampler("always_on", None).samples(1, Some(false)));
        assert!(!sampler("always_off", None).samples(1, Some(true)));
        assert!(sampler("parentbased_always_off", None).samples(1, Some(true)));
        assert!(Sampler::parse("traceidratio", Some("2")).is_err());
    }
}
