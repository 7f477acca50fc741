//! How a connection logs in: the client library's settings, and the password.
//!
//! Invariant: every connection uses the content that the password file has when the connection is opened, because
//! passwords are rotated while servers run.

use crate::StoreError;
use crate::connections::tls::{Encrypted, Tls};
use engine::BoxFuture;
use parking_lot::Mutex;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_postgres::{Client, Config, Connection, Error, Socket};

/// The password of the database user. It is never shown.
#[derive(Clone)]
pub struct Password {
    last: Arc<Mutex<String>>,
    file: Option<Arc<PathBuf>>,
}

impl Password {
    /// Reads the password in a file. Each connection to the database reads the file again.
    pub fn in_file(path: &Path) -> Result<Self, StoreError> {
        let text = read(path).map_err(|error| StoreError::file(path, format!("reading the password: {error}")))?;
        Ok(Self { file: Some(Arc::new(path.to_owned())), ..Self::from(text) })
    }

    /// Returns the password in the file, or the last one if the file cannot be read.
    fn read(&self) -> String {
        let mut last = self.last.lock();
        match self.file.as_deref().map(|path| (path, read(path))) {
            Some((_, Ok(text))) => *last = text,
            Some((path, Err(error))) => tracing::warn!(
                %error,
                "the password in {} cannot be read, so a new connection to the database uses the last one",
                path.display()
            ),
            None => {}
        }
        last.clone()
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self { last: Arc::new(Mutex::new(text)), file: None }
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Password").field("file", &self.file).finish_non_exhaustive()
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    Ok(std::fs::read_to_string(path)?.trim_end_matches(['\r', '\n']).to_owned())
}

#[derive(Debug, Clone)]
pub(crate) struct Login {
    config: Config,
    /// `None` if the URL contains the password, or if there is none.
    password: Option<Password>,
}

impl Login {
    /// `password` is used if the settings contain no password.
    pub(crate) fn new(config: Config, password: Option<Password>) -> Self {
        let password = password.filter(|_| config.get_password().is_none());
        Self { config, password }
    }

    /// Returns the settings, perhaps without the password.
    pub(crate) fn without_password(&self) -> &Config {
        &self.config
    }

    /// Returns the same login at other hosts.
    pub(crate) fn with(&self, config: Config) -> Self {
        Self::new(config, self.password.clone())
    }

    /// Returns the settings with the current password.
    pub(crate) async fn current(&self) -> Config {
        let mut config = self.config.clone();
        if let Some(password) = self.password.clone() {
            // The file may be in a remote file system.
            let text = spawn_blocking(move || password.read()).await;
            config.password(text.unwrap_or_default());
        }
        config
    }

    pub(crate) async fn connect(&self, tls: Tls) -> Result<NewConnection, Error> {
        self.current().await.connect(tls).await
    }
}

pub(crate) type NewConnection = (Client, Connection<Socket, Encrypted<Socket>>);

/// Opens the connections of a pool.
pub(crate) struct PoolConnect {
    pub(crate) login: Login,
    pub(crate) tls: Tls,
}

impl deadpool_postgres::Connect for PoolConnect {
    fn connect(&self, _settings: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        Box::pin(async move {
            let (client, connection) = self.login.connect(self.tls.clone()).await?;
            let task = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to the database broke");
                }
            });
            Ok((client, task))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_connection_reads_the_password_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        assert!(Password::in_file(&path).unwrap_err().to_string().contains("password"));
        std::fs::write(&path, "first\r\n").unwrap();
        let login = Login::new(Config::new(), Some(Password::in_file(&path).unwrap()));
        let elsewhere = login.with(Config::new());
        for (content, password) in [(Some("first\n"), "first"), (Some("second"), "second"), (None, "second")] {
            match content {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            for login in [&login, &elsewhere] {
                assert_eq!(login.current().await.get_password(), Some(password.as_bytes()), "{content:?}");
            }
        }
        assert!(!format!("{login:?}").contains("second"));
    }

    #[tokio::test]
    async fn the_password_in_the_settings_comes_first() {
        let config: Config = "postgres://me:inside@a/t".parse().unwrap();
        let login = Login::new(config, Some("beside".to_owned().into()));
        assert_eq!(login.current().await.get_password(), Some(&b"inside"[..]));
    }
}
