//! Making shared access signatures (specification 08).
//!
//! This module must not know how a service checks them.

use super::service::TableService;
use super::table::Table;
use crate::error::Error;
use crate::pipeline::VERSION;
use model::{DateTime, Permissions};
use std::borrow::Cow;
use wire::sas::{Fields, SasError, verify};

/// What a shared access signature for the entities of one table allows.
///
/// ```
/// use rowhouse_client::{Credential, DateTime, Permissions, PropertyBag, TableSas, TableService};
/// use std::time::{Duration, SystemTime};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let service = TableService::from_connection_string(&server.connection_string())?;
/// let orders = service.table("orders");
/// orders.create().await?;
/// let expiry = DateTime::from_system_time(SystemTime::now() + Duration::from_secs(3600));
/// let sas = TableSas::new(Permissions::READ.union(Permissions::ADD), expiry).from_partition("2031").to_partition("2031");
///
/// let credential = Credential::parse(&orders.sas(&sas)?).ok_or("not a credential")?;
/// let guest = TableService::new(service.endpoint().clone(), credential)?.table("orders");
/// guest.insert(&PropertyBag::new("2031", "0001")?).await?;
/// let error = guest.insert(&PropertyBag::new("2032", "0001")?).await.unwrap_err();
/// assert_eq!(error.kind(), rowhouse_client::ErrorKind::Forbidden);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSas {
    fields: Fields<'static>,
}

/// What a shared access signature for a whole account allows.
///
/// ```
/// use rowhouse_client::{AccountSas, Credential, DateTime, Permissions, TableService};
/// use std::time::{Duration, SystemTime};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let service = TableService::from_connection_string(&server.connection_string())?;
/// let expiry = DateTime::from_system_time(SystemTime::now() + Duration::from_secs(3600));
/// let sas = AccountSas::new(Permissions::READ.union(Permissions::LIST), expiry);
///
/// let credential = Credential::parse(&service.sas(&sas)?).ok_or("not a credential")?;
/// let guest = TableService::new(service.endpoint().clone(), credential)?;
/// assert!(guest.tables().all().await?.is_empty());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSas {
    fields: Fields<'static>,
}

/// The methods that both kinds have.
macro_rules! common_methods {
    ($kind:ident) => {
        impl $kind {
            /// Makes it valid from this time on. Without this it is valid at once.
            ///
            /// Clocks differ: a server whose clock is slow may refuse one that begins now.
            ///
            /// ```
            /// # use rowhouse_client::{DateTime, Permissions};
            #[doc = concat!("# use rowhouse_client::", stringify!($kind), ";")]
            #[doc = concat!("let sas = ", stringify!($kind), "::new(Permissions::READ, DateTime::MAX).starts(DateTime::MIN);")]
            /// ```
            #[must_use]
            pub fn starts(mut self, start: DateTime) -> Self {
                self.fields.start = seconds(start);
                self
            }

            /// Only from an address, or a range of them such as `203.0.113.4-203.0.113.9`.
            ///
            /// ```
            /// # use rowhouse_client::{DateTime, Permissions};
            #[doc = concat!("# use rowhouse_client::", stringify!($kind), ";")]
            #[doc = concat!("let sas = ", stringify!($kind), "::new(Permissions::READ, DateTime::MAX).ip(\"203.0.113.4\");")]
            /// ```
            #[must_use]
            pub fn ip(mut self, addresses: &str) -> Self {
                self.fields.sources = Cow::Owned(addresses.to_owned());
                self
            }

            /// Only over HTTPS.
            ///
            /// ```
            /// # use rowhouse_client::{DateTime, Permissions};
            #[doc = concat!("# use rowhouse_client::", stringify!($kind), ";")]
            #[doc = concat!("let sas = ", stringify!($kind), "::new(Permissions::READ, DateTime::MAX).https_only();")]
            /// ```
            #[must_use]
            pub fn https_only(mut self) -> Self {
                self.fields.protocols = Cow::Borrowed("https");
                self
            }
        }
    };
}

common_methods!(TableSas);
common_methods!(AccountSas);

impl TableSas {
    /// One that allows this, until it expires. Of the permissions, a table knows read, add, update and delete.
    ///
    /// ```
    /// # use rowhouse_client::{DateTime, Permissions, TableSas};
    /// let sas = TableSas::new(Permissions::ENTITIES, DateTime::MAX);
    /// ```
    pub fn new(permissions: Permissions, expiry: DateTime) -> Self {
        let permissions = Cow::Owned(permissions.to_string());
        Self { fields: Fields { permissions, expiry: seconds(expiry), ..fields() } }
    }

    /// One that allows what a stored access policy of the table says, and can be revoked by changing it.
    ///
    /// ```
    /// # use rowhouse_client::TableSas;
    /// let sas = TableSas::with_policy("readers");
    /// ```
    pub fn with_policy(id: &str) -> Self {
        Self { fields: Fields { policy: Cow::Owned(id.to_owned()), ..fields() } }
    }

    /// Only entities from this partition on.
    ///
    /// ```
    /// # use rowhouse_client::TableSas;
    /// let sas = TableSas::with_policy("readers").from_partition("2031");
    /// ```
    #[must_use]
    pub fn from_partition(mut self, partition_key: &str) -> Self {
        self.fields.start_partition = Cow::Owned(partition_key.to_owned());
        self
    }

    /// Only entities from this one on.
    ///
    /// ```
    /// # use rowhouse_client::TableSas;
    /// let sas = TableSas::with_policy("readers").from_entity("2031", "0100");
    /// ```
    #[must_use]
    pub fn from_entity(mut self, partition_key: &str, row_key: &str) -> Self {
        self.fields.start_row = Cow::Owned(row_key.to_owned());
        self.from_partition(partition_key)
    }

    /// Only entities up to this partition, all of it included.
    ///
    /// ```
    /// # use rowhouse_client::TableSas;
    /// let sas = TableSas::with_policy("readers").to_partition("2031");
    /// ```
    #[must_use]
    pub fn to_partition(mut self, partition_key: &str) -> Self {
        self.fields.end_partition = Cow::Owned(partition_key.to_owned());
        self
    }

    /// Only entities up to this one, which is included.
    ///
    /// ```
    /// # use rowhouse_client::TableSas;
    /// let sas = TableSas::with_policy("readers").to_entity("2031", "0199");
    /// ```
    #[must_use]
    pub fn to_entity(mut self, partition_key: &str, row_key: &str) -> Self {
        self.fields.end_row = Cow::Owned(row_key.to_owned());
        self.to_partition(partition_key)
    }
}

impl AccountSas {
    /// One that allows this for the service, its tables and its entities, until it expires.
    ///
    /// ```
    /// # use rowhouse_client::{AccountSas, DateTime, Permissions};
    /// let sas = AccountSas::new(Permissions::READ.union(Permissions::LIST), DateTime::MAX);
    /// ```
    pub fn new(permissions: Permissions, expiry: DateTime) -> Self {
        let permissions = Cow::Owned(permissions.to_string());
        let (services, resources) = (Cow::Borrowed("t"), Cow::Borrowed("sco"));
        Self { fields: Fields { services, resources, permissions, expiry: seconds(expiry), ..fields() } }
    }

    /// Sets for which resources: letters of `s` (the service), `c` (tables) and `o` (entities).
    ///
    /// ```
    /// # use rowhouse_client::{AccountSas, DateTime, Permissions};
    /// let entities_only = AccountSas::new(Permissions::READ, DateTime::MAX).resources("o");
    /// ```
    #[must_use]
    pub fn resources(mut self, letters: &str) -> Self {
        self.fields.resources = Cow::Owned(letters.to_owned());
        self
    }
}

impl Table {
    /// A shared access signature for the entities of this table: the query string of an address, or a
    /// [`Credential`](crate::Credential). The service must have been made with an account key, which signs it.
    ///
    /// ```
    /// # use rowhouse_client::{DateTime, Permissions, TableSas, TableService};
    /// let service = TableService::from_connection_string("UseDevelopmentStorage=true")?;
    /// let token = service.table("orders").sas(&TableSas::new(Permissions::READ, DateTime::MAX))?;
    /// println!("{}/orders?{token}", service.endpoint());
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn sas(&self, sas: &TableSas) -> Result<String, Error> {
        let table = Cow::Owned(self.name().to_owned());
        sign(&self.pipeline, Fields { table, ..sas.fields.clone() })
    }
}

impl TableService {
    /// A shared access signature for the account: the query string of an address, or a [`Credential`](crate::Credential). The
    /// service must have been made with an account key, which signs it.
    ///
    /// ```
    /// # use rowhouse_client::{AccountSas, DateTime, Permissions, TableService};
    /// let service = TableService::from_connection_string("UseDevelopmentStorage=true")?;
    /// let token = service.sas(&AccountSas::new(Permissions::READ, DateTime::MAX))?;
    /// assert!(token.contains("sig="));
    /// # Ok::<(), rowhouse_client::Error>(())
    /// ```
    pub fn sas(&self, sas: &AccountSas) -> Result<String, Error> {
        sign(&self.pipeline, sas.fields.clone())
    }
}

fn fields() -> Fields<'static> {
    Fields { version: Cow::Borrowed(VERSION), ..Fields::default() }
}

/// A time of a token, which has no fractions of a second.
fn seconds(instant: DateTime) -> Cow<'static, str> {
    let mut out = Vec::with_capacity(20);
    instant.write_whole_seconds_to(&mut out);
    Cow::Owned(String::from_utf8(out).expect("a time is ASCII"))
}

fn sign(pipeline: &crate::pipeline::Pipeline, fields: Fields<'_>) -> Result<String, Error> {
    let invalid = |error: SasError| Error::Invalid(format!("the shared access signature: {error}"));
    let key = pipeline.shared.credential.key();
    let key = key.ok_or_else(|| Error::Invalid("only an account key can sign a shared access signature".to_owned()))?;
    let account = pipeline.shared.primary.account().as_str();
    let token = fields.sign(account, key).map_err(invalid)?;
    // A server would refuse such a token without a reason, so it is refused here.
    verify(&token, account, std::slice::from_ref(key)).map_err(invalid)?;
    Ok(token)
}
