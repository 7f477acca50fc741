//! The service properties of an account (specification 10 §1): logging, which is stored and returned but has no effect,
//! metrics, and CORS rules.
//!
//! This module must not know XML.

use crate::cors::CorsRules;
use crate::limits::{RETENTION_DAYS_MAX, RETENTION_DAYS_MIN};

/// The service properties of an account. The default is that of a new account: everything off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceProperties {
    /// Which requests are logged.
    pub logging: Logging,
    /// Metrics by the hour.
    pub hour_metrics: Metrics,
    /// Metrics by the minute.
    pub minute_metrics: Metrics,
    /// What scripts of other origins may do.
    pub cors: CorsRules,
}

/// New values for some sections of the service properties. A section that is not given keeps its value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServicePropertiesUpdate {
    /// Replaces the logging settings.
    pub logging: Option<Logging>,
    /// Replaces the metrics by the hour.
    pub hour_metrics: Option<Metrics>,
    /// Replaces the metrics by the minute.
    pub minute_metrics: Option<Metrics>,
    /// Replaces all CORS rules.
    pub cors: Option<CorsRules>,
}

impl ServiceProperties {
    /// The properties of a new account with analytics: hourly metrics, by operation too, kept for a week.
    pub fn measured() -> Self {
        let retention = RetentionDays::new(7);
        Self { hour_metrics: Metrics { level: MetricsLevel::ServiceAndApi, retention }, ..Self::default() }
    }

    /// The properties with the sections of the update in place of their own.
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

/// Which requests are logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Logging {
    /// Reads are logged.
    pub read: bool,
    /// Writes are logged.
    pub write: bool,
    /// Deletions are logged.
    pub delete: bool,
    /// How long logs are kept; `None` keeps them forever.
    pub retention: Option<RetentionDays>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Metrics {
    /// How much is measured.
    pub level: MetricsLevel,
    /// How long metrics are kept; `None` keeps them forever.
    pub retention: Option<RetentionDays>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetricsLevel {
    /// Nothing.
    #[default]
    Off,
    /// Sums over all requests.
    Service,
    /// Sums over all requests, and by operation.
    ServiceAndApi,
}

/// For how many days analytics data are kept: 1 to 365.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionDays(u16);

impl RetentionDays {
    /// Checks the bounds.
    pub fn new(days: u16) -> Option<Self> {
        (RETENTION_DAYS_MIN..=RETENTION_DAYS_MAX).contains(&days).then_some(Self(days))
    }

    /// The number of days.
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
