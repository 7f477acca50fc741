//! Connections between processes of one user through a folder that contains a Unix socket `NAME.sock` with mode 0600.

use super::files::private_folder;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A connection.
pub type Stream = UnixStream;

/// The socket of a folder.
#[derive(Debug)]
pub struct Listener(tokio::net::UnixListener);

/// An accepted connection.
#[derive(Debug)]
pub struct Incoming(Stream);

impl Listener {
    /// Creates the socket of a folder, replacing one left by an earlier process. The current runtime drives the socket.
    pub fn bind(folder: &Path, name: &str) -> io::Result<Self> {
        let listener = bind(folder, name)?;
        listener.set_nonblocking(true)?;
        Ok(Self(tokio::net::UnixListener::from_std(listener)?))
    }

    /// Accepts a connection.
    pub async fn accept(&self) -> io::Result<Incoming> {
        let (stream, _) = self.0.accept().await?;
        Ok(Incoming(stream.into_std()?))
    }
}

impl Incoming {
    /// Converts the accepted connection to a blocking one. A write fails if nothing can be written within
    /// `write_timeout`. Only the owner of the folder can connect.
    pub fn open(self, write_timeout: Duration) -> io::Result<Stream> {
        self.0.set_nonblocking(false)?;
        self.0.set_write_timeout(Some(write_timeout))?;
        Ok(self.0)
    }
}

/// Creates a connection within this process, for tests.
pub fn pair() -> io::Result<(Stream, Incoming)> {
    let (ours, theirs) = UnixStream::pair()?;
    Ok((ours, Incoming(theirs)))
}

/// Returns the path at which clients find the socket.
pub fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(name).with_extension("sock")
}

/// Connects to the process that listens on the socket of a folder. Returns `NotFound` or `ConnectionRefused` if there
/// is no such process.
pub fn connect(folder: &Path, name: &str) -> io::Result<Stream> {
    with_short_path(folder, name, |path| UnixStream::connect(path))
}

/// Creates the socket in a private folder, restricts it to its owner, and then moves it to its final path.
fn bind(folder: &Path, name: &str) -> io::Result<UnixListener> {
    let preparation = folder.join(name).with_extension("new");
    match fs::remove_dir_all(&preparation) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => private_folder().create(&preparation)?,
    }
    let listener = with_short_path(&preparation, name, |path| UnixListener::bind(path))?;
    let socket = path(&preparation, name);
    fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
    fs::rename(&socket, path(folder, name))?;
    fs::remove_dir(&preparation)?;
    Ok(listener)
}

/// Opens the socket of a folder through a short path, because socket paths are limited to about 100 bytes.
fn with_short_path<T>(folder: &Path, name: &str, open: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    /// Below the limit of every system, leaving room for the name of the socket.
    const PATH_BYTES_MAX: usize = 80;
    if folder.as_os_str().len() <= PATH_BYTES_MAX || !Path::new("/proc/self/fd").exists() {
        return open(&path(folder, name));
    }
    let opened = File::open(folder)?;
    open(&path(&Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_for_its_owner_replaces_a_stale_one_and_may_have_a_long_path() {
        let place = tempfile::tempdir().unwrap();
        let deep = place.path().join("d".repeat(120)).join("e".repeat(120));
        for folder in [place.path(), deep.as_path()] {
            fs::create_dir_all(folder).unwrap();
            assert_eq!(connect(folder, "control").unwrap_err().kind(), ErrorKind::NotFound);
            drop(bind(folder, "control").unwrap());
            assert_eq!(connect(folder, "control").unwrap_err().kind(), ErrorKind::ConnectionRefused);
            let preparation = folder.join("control.new");
            fs::create_dir(&preparation).unwrap();
            let listener = bind(folder, "control").unwrap();
            connect(folder, "control").unwrap();
            drop(listener);
            let mode = fs::metadata(folder.join("control.sock")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            assert!(!preparation.exists());
        }
    }
}
