//! Creates shared access signatures (specification 08).
//!
//! This module must not know how a service verifies signatures.

use super::service::TableService;
use super::table::Table;
use crate::error::Error;
use crate::pipeline::VERSION;
use model::{DateTime, Permissions};
use std::borrow::Cow;
use wire::sas::{Fields, SasError, verify};

/// The settings of a shared access signature for the entities of one table.
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

/// The settings of a shared access signature for a whole account.
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

macro_rules! common_methods {
    ($kind:ident) => {
        impl $kind {
            /// Sets the start of the validity period. By default the signature is valid immediately.
            ///
            /// Clocks differ: a server whose clock is slow may refuse a signature that starts now.
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

            /// Restricts the signature to an IP address or a range of IP addresses, such as `203.0.113.4-203.0.113.9`.
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

            /// Restricts the signature to HTTPS.
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
    /// Creates a signature with these permissions, valid until it expires. The permissions that apply to a table are
    /// read, add, update and delete.
    ///
    /// ```
    /// # use rowhouse_client::{DateTime, Permissions, TableSas};
    /// let sas = TableSas::new(Permissions::ENTITIES, DateTime::MAX);
    /// ```
    pub fn new(permissions: Permissions, expiry: DateTime) -> Self {
        let permissions = Cow::Owned(permissions.to_string());
        Self { fields: Fields { permissions, expiry: seconds(expiry), ..fields() } }
    }

    /// Creates a signature whose permissions and validity come from a stored access policy of the table. Changing the
    /// policy revokes it.
    ///
    /// ```
    /// # use rowhouse_client::TableSas;
    /// let sas = TableSas::with_policy("readers");
    /// ```
    pub fn with_policy(id: &str) -> Self {
        Self { fields: Fields { policy: Cow::Owned(id.to_owned()), ..fields() } }
    }

    /// Restricts the signature to partition keys greater than or equal to the given one.
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

    /// Restricts the signature to entities at or after the given one, in key order.
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

    /// Restricts the signature to partition keys less than or equal to the given one.
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

    /// Restricts the signature to entities at or before the given one, in key order.
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
    /// Creates a signature with these permissions for the service, its tables and its entities, valid until it expires.
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

    /// Sets the resources that the signature applies to, as letters: `s` (the service), `c` (tables) and `o`
    /// (entities).
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
    /// Returns a shared access signature for the entities of this table, for use as the query string of a URL or as a
    /// [`Credential`](crate::Credential). The service's credential must be an account key, which signs it.
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
    /// Returns a shared access signature for the account, for use as the query string of a URL or as a
    /// [`Credential`](crate::Credential). The service's credential must be an account key, which signs it.
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

/// Omits fractions of a second.
fn seconds(instant: DateTime) -> Cow<'static, str> {
    let mut out = Vec::with_capacity(20);
    instant.write_whole_seconds_to(&mut out);
    Cow::Owned(String::from_utf8(out).expect("a time is ASCII"))
}

fn sign(pipeline: &crate::pipeline::Pipeline, fields: Fields<'_>) -> Result<String, Error> {
    let invalid = |error: SasError| Error::Invalid(format!("the shared access signature is not valid: {error}"));
    let key = pipeline.shared.credential.key();
    let key = key.ok_or_else(|| Error::Invalid("only an account key can sign a shared access signature".to_owned()))?;
    let account = pipeline.shared.primary.account().as_str();
    let token = fields.sign(account, key).map_err(invalid)?;
    // A server would refuse such a signature without giving the reason, so check it here.
    verify(&token, account, std::slice::from_ref(key)).map_err(invalid)?;
    Ok(token)
}
