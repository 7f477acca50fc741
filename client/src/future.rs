//! The future that the traits of this crate return.

/// A boxed future, as returned by the traits of this crate.
///
/// ```
/// use rowhouse_client::BoxFuture;
///
/// fn seven() -> BoxFuture<'static, u8> {
///     Box::pin(async { 7 })
/// }
/// # let _ = seven();
/// ```
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
