//! Implements [`ObservedService`] for a [`Service`] with any engine.

use super::ObservedService;
use crate::limits::LimitFigures;
use crate::service::Service;
use engine::{Figures, TableKey};
use model::{AccountName, TableName};
use std::pin::Pin;
use std::time::SystemTime;

/// The name of both the account and the table that the probe looks up. They need not exist.
const READINESS: &str = "readiness";

impl ObservedService for Service {
    fn figures(&self) -> (Figures, LimitFigures) {
        let limits = LimitFigures {
            requests: self.admission.figures(),
            memory_bytes: self.memory.figures(),
            streams: self.changes.as_ref().map(|feed| (feed.streams.figures(), feed.next())),
        };
        let replication = self.settings.replication.as_ref().map(|replication| replication.figures());
        (Figures { replication, ..self.engine.figures() }, limits)
    }

    fn now(&self) -> SystemTime {
        self.clock.now().to_system_time()
    }

    fn probe(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async {
            let account = AccountName::new(READINESS).expect("the name is valid");
            let name = TableName::new(READINESS).expect("the name is valid");
            let found = self.engine.table(&TableKey { account, name }).await;
            found.map(|_| ()).map_err(|fault| fault.to_string())
        })
    }
}
