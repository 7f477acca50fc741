//! Service properties as XML: the body of Get and Set Table Service Properties (specification 10 §1).
//!
//! Before version 2013-08-15, the XML contains only `Logging` and `Metrics`. The latter are the hourly metrics.
//!
//! This module must not depend on what the properties do.

use crate::version::Version;
use crate::xml::{BYTE_ORDER_MARK, DECLARATION, Element, MalformedXml, escape};
use model::cors::CorsError;
use model::service_properties::{Logging, Metrics, MetricsLevel, RetentionDays};
use model::{CorsRule, CorsRules, ServiceProperties, ServicePropertiesUpdate};
use std::fmt;

/// The reason why an update is rejected. The message is for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServicePropertiesError {
    /// The text is not XML that this service accepts.
    Malformed(MalformedXml),
    /// The XML contains no sections.
    Empty,
    /// This element is not allowed here, or occurs twice.
    Unexpected(Box<str>),
    /// This element is missing.
    Missing(&'static str),
    /// The text of this element is not a valid value of its type.
    Value(&'static str),
    /// `Days` is present although `Enabled` is false (recorded).
    DaysWithoutRetention,
    /// A limit of CORS rules is exceeded.
    Cors(CorsError),
}

impl fmt::Display for ServicePropertiesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::Empty => f.write_str("the document has no sections"),
            Self::Unexpected(name) => write!(f, "the element '{name}' is not allowed here or occurs twice"),
            Self::Missing(name) => write!(f, "the element '{name}' is missing"),
            Self::Value(name) => {
                let expected = match *name {
                    "Version" => "1.0",
                    "Days" => "a whole number from 1 to 365",
                    "MaxAgeInSeconds" => "a whole number of seconds",
                    _ => "true or false",
                };
                write!(f, "the value of '{name}' must be {expected}")
            }
            Self::DaysWithoutRetention => f.write_str("'Days' is present in a retention policy that is not enabled"),
            Self::Cors(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServicePropertiesError {}

impl From<MalformedXml> for ServicePropertiesError {
    fn from(error: MalformedXml) -> Self {
        Self::Malformed(error)
    }
}

impl From<CorsError> for ServicePropertiesError {
    fn from(error: CorsError) -> Self {
        Self::Cors(error)
    }
}

/// Parses the sections that a client sets.
pub fn read(body: &[u8], version: Version) -> Result<ServicePropertiesUpdate, ServicePropertiesError> {
    let root = Element::parse(body)?;
    if &*root.name != "StorageServiceProperties" {
        return Err(ServicePropertiesError::Unexpected(root.name));
    }
    if version < Version::PARTIAL_PROPERTIES {
        let [logging, metrics] = children(&root, ["Logging", "Metrics"])?;
        return Ok(ServicePropertiesUpdate {
            logging: Some(read_logging(required(logging, "Logging")?)?),
            hour_metrics: Some(read_metrics(required(metrics, "Metrics")?)?),
            ..ServicePropertiesUpdate::default()
        });
    }
    let [logging, hour, minute, cors] = children(&root, ["Logging", "HourMetrics", "MinuteMetrics", "Cors"])?;
    if root.children.is_empty() {
        return Err(ServicePropertiesError::Empty);
    }
    Ok(ServicePropertiesUpdate {
        logging: logging.map(read_logging).transpose()?,
        hour_metrics: hour.map(read_metrics).transpose()?,
        minute_metrics: minute.map(read_metrics).transpose()?,
        cors: cors.map(read_cors).transpose()?,
    })
}

fn read_logging(section: &Element) -> Result<Logging, ServicePropertiesError> {
    let [version, read, write, delete, retention] =
        children(section, ["Version", "Read", "Write", "Delete", "RetentionPolicy"])?;
    check_version(version)?;
    Ok(Logging {
        read: boolean(read, "Read")?,
        write: boolean(write, "Write")?,
        delete: boolean(delete, "Delete")?,
        retention: read_retention(required(retention, "RetentionPolicy")?)?,
    })
}

fn read_metrics(section: &Element) -> Result<Metrics, ServicePropertiesError> {
    let [version, enabled, apis, retention] =
        children(section, ["Version", "Enabled", "IncludeAPIs", "RetentionPolicy"])?;
    check_version(version)?;
    // If metrics are disabled, the element may be missing. If it is present, it is checked.
    let level = match (boolean(enabled, "Enabled")?, apis) {
        (false, None) => MetricsLevel::Off,
        (is_enabled, apis) => match (is_enabled, boolean(apis, "IncludeAPIs")?) {
            (false, _) => MetricsLevel::Off,
            (true, false) => MetricsLevel::Service,
            (true, true) => MetricsLevel::ServiceAndApi,
        },
    };
    Ok(Metrics { level, retention: read_retention(required(retention, "RetentionPolicy")?)? })
}

/// The Table service supports only version 1.0 of the log format. Other services also support version 2.0 (reported).
fn check_version(element: Option<&Element>) -> Result<(), ServicePropertiesError> {
    let version = value(required(element, "Version")?)?;
    if version == "1.0" { Ok(()) } else { Err(ServicePropertiesError::Value("Version")) }
}

fn read_retention(policy: &Element) -> Result<Option<RetentionDays>, ServicePropertiesError> {
    let [enabled, days] = children(policy, ["Enabled", "Days"])?;
    match (boolean(enabled, "Enabled")?, days) {
        (false, None) => Ok(None),
        (false, Some(_)) => Err(ServicePropertiesError::DaysWithoutRetention),
        (true, days) => {
            let days = number(required(days, "Days")?).and_then(|days| RetentionDays::new(u16::try_from(days).ok()?));
            days.map(Some).ok_or(ServicePropertiesError::Value("Days"))
        }
    }
}

fn read_cors(section: &Element) -> Result<CorsRules, ServicePropertiesError> {
    check_no_text(section)?;
    let rules: Result<Vec<_>, ServicePropertiesError> = section
        .children
        .iter()
        .map(|child| if &*child.name == "CorsRule" { read_rule(child) } else { Err(unexpected(child)) })
        .collect();
    Ok(CorsRules::new(rules?)?)
}

fn read_rule(rule: &Element) -> Result<CorsRule, ServicePropertiesError> {
    const NAMES: [&str; 5] =
        ["AllowedOrigins", "AllowedMethods", "AllowedHeaders", "ExposedHeaders", "MaxAgeInSeconds"];
    let [origins, methods, allowed, exposed, age] = children(rule, NAMES)?;
    let list = |element, name| value(required(element, name)?);
    let age = number(required(age, "MaxAgeInSeconds")?).ok_or(ServicePropertiesError::Value("MaxAgeInSeconds"))?;
    Ok(CorsRule::new(
        list(origins, "AllowedOrigins")?,
        list(methods, "AllowedMethods")?,
        list(allowed, "AllowedHeaders")?,
        list(exposed, "ExposedHeaders")?,
        age,
    )?)
}

/// Returns the children of an element by name, in any order. Rejects duplicates and other children.
fn children<'e, const N: usize>(
    element: &'e Element,
    names: [&str; N],
) -> Result<[Option<&'e Element>; N], ServicePropertiesError> {
    check_no_text(element)?;
    element.children_by_name(names).map_err(unexpected)
}

fn unexpected(element: &Element) -> ServicePropertiesError {
    ServicePropertiesError::Unexpected(element.name.clone())
}

/// Checks that an element with children contains no text except white space.
fn check_no_text(element: &Element) -> Result<(), ServicePropertiesError> {
    if element.text.trim().is_empty() { Ok(()) } else { Err(unexpected(element)) }
}

fn required<'e>(element: Option<&'e Element>, name: &'static str) -> Result<&'e Element, ServicePropertiesError> {
    element.ok_or(ServicePropertiesError::Missing(name))
}

/// The element must not have children.
fn value(element: &Element) -> Result<&str, ServicePropertiesError> {
    if element.children.is_empty() { Ok(element.text.trim()) } else { Err(unexpected(element)) }
}

/// Parses a Boolean, ignoring case (recorded: `False`).
fn boolean(element: Option<&Element>, name: &'static str) -> Result<bool, ServicePropertiesError> {
    let text = value(required(element, name)?)?;
    match text {
        _ if text.eq_ignore_ascii_case("true") => Ok(true),
        _ if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(ServicePropertiesError::Value(name)),
    }
}

fn number(element: &Element) -> Option<u32> {
    let text = value(element).ok()?;
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Writes the properties as the service does, in the recorded order of elements.
pub fn write(properties: &ServiceProperties, version: Version) -> Vec<u8> {
    let mut out = format!("{BYTE_ORDER_MARK}{DECLARATION}<StorageServiceProperties>");
    write_logging(&mut out, properties.logging);
    if version < Version::PARTIAL_PROPERTIES {
        write_metrics(&mut out, "Metrics", properties.hour_metrics);
    } else {
        write_metrics(&mut out, "HourMetrics", properties.hour_metrics);
        write_metrics(&mut out, "MinuteMetrics", properties.minute_metrics);
        write_cors(&mut out, &properties.cors);
    }
    out.push_str("</StorageServiceProperties>");
    out.into_bytes()
}

fn write_logging(out: &mut String, logging: Logging) {
    out.push_str("<Logging>");
    write_value(out, "Version", "1.0");
    write_boolean(out, "Read", logging.read);
    write_boolean(out, "Write", logging.write);
    write_boolean(out, "Delete", logging.delete);
    write_retention(out, logging.retention);
    out.push_str("</Logging>");
}

fn write_metrics(out: &mut String, section: &str, metrics: Metrics) {
    out.extend(["<", section, ">"]);
    write_value(out, "Version", "1.0");
    write_boolean(out, "Enabled", metrics.level != MetricsLevel::Off);
    if metrics.level != MetricsLevel::Off {
        write_boolean(out, "IncludeAPIs", metrics.level == MetricsLevel::ServiceAndApi);
    }
    write_retention(out, metrics.retention);
    out.extend(["</", section, ">"]);
}

fn write_retention(out: &mut String, days: Option<RetentionDays>) {
    out.push_str("<RetentionPolicy>");
    write_boolean(out, "Enabled", days.is_some());
    if let Some(days) = days {
        write_value(out, "Days", &days.get().to_string());
    }
    out.push_str("</RetentionPolicy>");
}

fn write_cors(out: &mut String, rules: &CorsRules) {
    if rules.is_empty() {
        out.push_str("<Cors />");
        return;
    }
    out.push_str("<Cors>");
    for rule in rules.as_slice() {
        out.push_str("<CorsRule>");
        write_value(out, "AllowedMethods", &rule.methods());
        write_value(out, "AllowedOrigins", &rule.origins());
        write_value(out, "AllowedHeaders", &rule.allowed_headers().to_string());
        write_value(out, "ExposedHeaders", &rule.exposed_headers().to_string());
        write_value(out, "MaxAgeInSeconds", &rule.max_age_seconds().to_string());
        out.push_str("</CorsRule>");
    }
    out.push_str("</Cors>");
}

fn write_boolean(out: &mut String, name: &str, value: bool) {
    write_value(out, name, if value { "true" } else { "false" });
}

fn write_value(out: &mut String, name: &str, value: &str) {
    if value.is_empty() {
        out.extend(["<", name, " />"]);
    } else {
        out.extend(["<", name, ">", &escape(value), "</", name, ">"]);
    }
}

#[cfg(test)]
mod tests;
