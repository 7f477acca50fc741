//! The service properties of an account (10 §1): logging (which is stored and returned but has no effect), metrics, and
//! CORS rules.
//!
//! This module must not depend on XML.

use crate::cors::CorsRules;
use crate::limits::{RETENTION_DAYS_MAX, RETENTION_DAYS_MIN};

/// The service properties of an account. The default is the state of a new account, in which everything is off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceProperties {
    /// The logging settings.
    pub logging: Logging,
    /// The settings of hourly metrics.
    pub hour_metrics: Metrics,
    /// The settings of per-minute metrics.
    pub minute_metrics: Metrics,
    /// The CORS rules.
    pub cors: CorsRules,
}

/// New values for some sections of the service properties. An omitted section keeps its value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServicePropertiesUpdate {
    /// Replaces the logging settings.
    pub logging: Option<Logging>,
    /// Replaces the settings of hourly metrics.
    pub hour_metrics: Option<Metrics>,
    /// Replaces the settings of per-minute metrics.
    pub minute_metrics: Option<Metrics>,
    /// Replaces all CORS rules.
    pub cors: Option<CorsRules>,
}

impl ServiceProperties {
    /// Returns the properties of a new account with analytics enabled: hourly metrics, including metrics per operation,
    /// with a retention of a week.
    pub fn with_hourly_metrics() -> Self {
        let retention = RetentionDays::new(7);
        Self { hour_metrics: Metrics { level: MetricsLevel::ServiceAndApi, retention }, ..Self::default() }
    }

    /// Returns the properties with the sections of the update applied.
    #[must_use]
    pub fn updated(&self, update: ServicePropertiesUpdate) -> Self {
        Self {
            logging: update.logging.unwrap_or(self.logging),
            hour_metrics: update.hour_metrics.unwrap_or(self.hour_metrics),
            minute_metrics: update.minute_metrics.unwrap_or(self.minute_metrics),
            cors: update.cors.unwrap_or_else(|| self.cors.clone()),
        }
    }
}

/// The logging settings: the kinds of requests to log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Logging {
    /// Whether reads are logged.
    pub read: bool,
    /// Whether writes are logged.
    pub write: bool,
    /// Whether deletions are logged.
    pub delete: bool,
    /// The retention of logs; `None` keeps them forever.
    pub retention: Option<RetentionDays>,
}

/// The settings of hourly or per-minute metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The level of detail.
    pub level: MetricsLevel,
    /// The retention of metrics; `None` keeps them forever.
    pub retention: Option<RetentionDays>,
}

/// The level of detail of metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetricsLevel {
    /// No metrics.
    #[default]
    Off,
    /// Totals of all requests.
    Service,
    /// Totals of all requests, and totals for each operation.
    ServiceAndApi,
}

/// The retention of analytics data, in days: 1 to 365.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionDays(u16);

impl RetentionDays {
    /// Checks the limits. Returns `None` if the number is outside them.
    pub fn new(days: u16) -> Option<Self> {
        (RETENTION_DAYS_MIN..=RETENTION_DAYS_MAX).contains(&days).then_some(Self(days))
    }

    /// Returns the number of days.
    pub fn get(self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cors::CorsRule;

    #[test]
    fn retention() {
        for (days, is_valid) in [(0, false), (1, true), (365, true), (366, false)] {
            assert_eq!(RetentionDays::new(days).is_some(), is_valid, "{days}");
        }
    }

    #[test]
    fn an_update_replaces_the_sections_it_has_and_keeps_the_others() {
        let rules = CorsRules::new(vec![CorsRule::new("*", "GET", "", "", 0).unwrap()]).unwrap();
        let week = RetentionDays::new(7);
        let logging = Logging { read: true, retention: week, ..Logging::default() };
        let metrics = Metrics { level: MetricsLevel::Service, retention: week };
        let start = ServiceProperties { logging, cors: rules.clone(), ..ServiceProperties::default() };
        let none = ServicePropertiesUpdate::default();
        assert_eq!(start.updated(none.clone()), start);
        let hour = start.updated(ServicePropertiesUpdate { hour_metrics: Some(metrics), ..none.clone() });
        assert_eq!(hour, ServiceProperties { hour_metrics: metrics, ..start.clone() });
        let minute = start.updated(ServicePropertiesUpdate { minute_metrics: Some(metrics), ..none.clone() });
        assert_eq!(minute, ServiceProperties { minute_metrics: metrics, ..start.clone() });
        // A section is replaced as a whole.
        let write = Logging { write: true, ..Logging::default() };
        let logged = start.updated(ServicePropertiesUpdate { logging: Some(write), ..none.clone() });
        assert_eq!(logged.logging, write);
        let cleared = start.updated(ServicePropertiesUpdate { cors: Some(CorsRules::default()), ..none });
        assert_eq!(cleared, ServiceProperties { cors: CorsRules::default(), ..start });
    }
}
