//! The default limits of the client. Names end with their unit.

use std::time::Duration;

/// The timeout for a request, which includes receiving the body of the response.
pub const REQUEST_TIME_MAX: Duration = Duration::from_mins(1);
/// The timeout for opening a connection.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(15);
/// The maximum size of a response body, in bytes: 64 MiB.
pub const RESPONSE_BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The maximum idle time of a connection. Servers and load balancers close idle connections after 60 s or more, and a
/// request sent while the connection is being closed would be lost.
pub const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(30);
