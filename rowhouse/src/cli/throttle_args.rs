//! The options for throttling (`docs/throttling.md`).

use anyhow::ensure;
use clap::Args;
use merge::Merge;
use model::limits::THROTTLE_TARGET_MAX;
use serde::Deserialize;
use server::Targets;

/// The options as given.
#[derive(Debug, Clone, Copy, Default, Args, Deserialize, Merge)]
#[merge(strategy = merge::option::overwrite_none)]
#[serde(rename_all = "kebab-case", default)]
pub struct ThrottleArgs {
    /// Refuse requests that exceed the targets of the real service
    ///
    /// The targets apply to each account and each partition; requests beyond them get 503 (server busy). Each server
    /// counts only its own requests.
    #[arg(long, env = "ROWHOUSE_THROTTLE")]
    pub throttle: Option<bool>,

    /// Maximum number of entities per second in an account [default: 20000]
    ///
    /// Counts entities read or written; requires --throttle.
    #[arg(long, env = "ROWHOUSE_ACCOUNT_ENTITIES_PER_SECOND", value_name = "COUNT")]
    pub account_entities_per_second: Option<u64>,

    /// Maximum number of entities per second in a partition [default: 2000]
    ///
    /// Counts entities read or written; requires --throttle.
    #[arg(long, env = "ROWHOUSE_PARTITION_ENTITIES_PER_SECOND", value_name = "COUNT")]
    pub partition_entities_per_second: Option<u64>,
}

impl ThrottleArgs {
    /// Returns the targets, or `None` if nothing is throttled. With `are_rehearsed`, which the list of --rehearse
    /// sets, throttling is on unless --throttle=false is given.
    pub fn targets(&self, are_rehearsed: bool) -> anyhow::Result<Option<Targets>> {
        let is_on = self.throttle.unwrap_or(are_rehearsed);
        let has_targets = self.account_entities_per_second.is_some() || self.partition_entities_per_second.is_some();
        // `--throttle=false` also disables targets that the file sets.
        ensure!(
            is_on || !has_targets || self.throttle == Some(false),
            "--account-entities-per-second and --partition-entities-per-second have no effect without --throttle: add it"
        );
        let targets = Targets {
            account_entities_per_second: self
                .account_entities_per_second
                .unwrap_or(Targets::SERVICE.account_entities_per_second),
            partition_entities_per_second: self
                .partition_entities_per_second
                .unwrap_or(Targets::SERVICE.partition_entities_per_second),
        };
        for (name, target) in [
            ("--account-entities-per-second", targets.account_entities_per_second),
            ("--partition-entities-per-second", targets.partition_entities_per_second),
        ] {
            ensure!((1..=THROTTLE_TARGET_MAX).contains(&target), "{name} is {target}: pass 1 to {THROTTLE_TARGET_MAX}");
        }
        Ok(is_on.then_some(targets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_of_the_service_unless_said_otherwise() {
        assert_eq!(ThrottleArgs::default().targets(false).unwrap(), None);
        let on = || ThrottleArgs { throttle: Some(true), ..ThrottleArgs::default() };
        let service = Targets { account_entities_per_second: 20_000, partition_entities_per_second: 2_000 };
        assert_eq!(on().targets(false).unwrap(), Some(service));
        let own = |target| ThrottleArgs { partition_entities_per_second: Some(target), ..on() }.targets(false);
        assert_eq!(own(5).unwrap(), Some(Targets { partition_entities_per_second: 5, ..service }));
        assert!(own(0).is_err() && own(THROTTLE_TARGET_MAX + 1).is_err());
        let alone =
            |throttle| ThrottleArgs { throttle, account_entities_per_second: Some(5), ..ThrottleArgs::default() };
        assert!(alone(None).targets(false).is_err());
        assert_eq!(alone(Some(false)).targets(false).unwrap(), None);
        assert_eq!(ThrottleArgs::default().targets(true).unwrap(), Some(service), "rehearsed");
        assert_eq!(alone(None).targets(true).unwrap(), Some(Targets { account_entities_per_second: 5, ..service }));
        assert_eq!(alone(Some(false)).targets(true).unwrap(), None);
    }
}
