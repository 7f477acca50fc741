//! A service as the admin listener sees it, whatever engine it is on.

use super::Watched;
use crate::limits::admission::AdmissionFigures;
use crate::service::Service;
use model::{AccountName, TableName};
use std::pin::Pin;
use store::{Engine, Figures, TableKey};

/// The account and the table that readiness asks the storage for. They need not be there.
const READINESS: &str = "readiness";

impl<E: Engine> Watched for Service<E> {
    fn figures(&self) -> (Figures, AdmissionFigures) {
        (self.engine.figures(), self.admission.figures())
    }

    fn reach(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async {
            let account = AccountName::new(READINESS).expect("the name follows the rules");
            let name = TableName::new(READINESS).expect("the name follows the rules");
            let found = self.engine.table(&TableKey { account, name }).await;
            found.map(|_| ()).map_err(|fault| fault.to_string())
        })
    }
}
