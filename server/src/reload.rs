//! Files that are reloaded while the server runs: when they change, and on SIGHUP.
//!
//! The value built from them is replaced as a whole: code that holds the old value keeps it, and [`Live::current`]
//! returns the new one. If the files are missing or broken, the value does not change. This module must not depend on
//! what the files contain.

use anyhow::{Context, anyhow, ensure};
use platform::files::exposure_warning;
use platform::signals::Hangups;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tracing::{info, warn};

/// The interval between reads. A change is applied when two consecutive reads find the same content. This way, a file
/// that is still being written, or a certificate whose key has not been replaced yet, is not applied.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The maximum size of one file, in bytes; enough for tens of thousands of accounts.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Live<T>(watch::Sender<Arc<T>>);

impl<T> Live<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(watch::Sender::new(Arc::new(value)))
    }

    pub(crate) fn current(&self) -> Arc<T> {
        Arc::clone(&self.0.borrow())
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Arc<T>> {
        self.0.subscribe()
    }

    pub(crate) fn replace(&self, value: T) {
        self.0.send_replace(Arc::new(value));
    }
}

/// Files that are read together, and their contents.
#[derive(Clone, PartialEq, Eq)]
pub struct Files<const N: usize> {
    /// The paths of the files.
    pub paths: [PathBuf; N],
    /// Their contents.
    pub contents: [Vec<u8>; N],
    /// Whether the last file contains secrets, so that other users should not be able to read it.
    pub is_secret: bool,
}

/// Does not show the contents, because they may be secret.
impl<const N: usize> fmt::Debug for Files<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.paths).finish()
    }
}

impl<const N: usize> Files<N> {
    /// Reads files of which the last contains secrets.
    pub fn read(paths: [PathBuf; N]) -> anyhow::Result<Self> {
        Self::read_as(paths, true)
    }

    /// Reads files that contain no secrets.
    pub fn read_public(paths: [PathBuf; N]) -> anyhow::Result<Self> {
        Self::read_as(paths, false)
    }

    fn read_as(paths: [PathBuf; N], is_secret: bool) -> anyhow::Result<Self> {
        let mut contents = std::array::from_fn(|_| Vec::new());
        for (path, content) in paths.iter().zip(&mut contents) {
            *content = read(path).with_context(|| format!("reading {}", path.display()))?;
        }
        Ok(Self { paths, contents, is_secret })
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        names.join(" and ")
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut content = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
    ensure!(content.len() as u64 <= FILE_BYTES_MAX, "the file is larger than {FILE_BYTES_MAX} bytes");
    Ok(content)
}

/// Keeps a value up to date with its files for as long as the server runs.
///
/// `make` must not put secrets into its errors, because they are logged.
pub(crate) fn follow<T: Send + Sync + 'static, const N: usize>(
    what: &'static str,
    files: Files<N>,
    live: Arc<Live<T>>,
    make: impl Fn(&Files<N>) -> anyhow::Result<T> + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let mut hangups = Hangups::listen().context("listening for SIGHUP")?;
    warn_if_exposed(&files);
    let (paths, is_secret) = (files.paths.clone(), files.is_secret);
    let mut detector = ChangeDetector::new(Ok(files));
    tokio::spawn(async move {
        loop {
            let is_requested = tokio::select! {
                () = hangups.next() => true,
                () = tokio::time::sleep(POLL_INTERVAL) => false,
            };
            let paths = paths.clone();
            let found = tokio::task::spawn_blocking(move || read_again(paths, is_secret)).await;
            let found = found.unwrap_or_else(|error| Err(error.to_string()));
            if detector.is_due(&found, is_requested) {
                apply(what, &found, &live, &make);
            }
        }
    });
    Ok(())
}

/// Logs at each SIGHUP that nothing is reloaded.
pub(crate) fn ignore_changes<const N: usize>(what: &'static str, files: &Files<N>) -> anyhow::Result<()> {
    let mut hangups = Hangups::listen().context("listening for SIGHUP")?;
    warn_if_exposed(files);
    let names = files.names();
    tokio::spawn(async move {
        loop {
            hangups.next().await;
            info!("{what}: with --test-controls, {names} is read only at startup");
        }
    });
    Ok(())
}

type FilesResult<const N: usize> = Result<Files<N>, String>;

struct ChangeDetector<const N: usize> {
    applied: FilesResult<N>,
    last: FilesResult<N>,
}

impl<const N: usize> ChangeDetector<N> {
    fn new(applied: FilesResult<N>) -> Self {
        Self { last: applied.clone(), applied }
    }

    /// Returns true if the content must be applied, either because SIGHUP requests it or because the same change was
    /// found twice.
    fn is_due(&mut self, found: &FilesResult<N>, is_requested: bool) -> bool {
        let is_settled = *found == self.last;
        if !is_settled {
            self.last.clone_from(found);
        }
        let is_due = is_requested || (is_settled && *found != self.applied);
        if is_due {
            self.applied.clone_from(found);
        }
        is_due
    }
}

fn read_again<const N: usize>(paths: [PathBuf; N], is_secret: bool) -> FilesResult<N> {
    // A pipe can be read only once; a second read would wait forever for a writer.
    match paths.iter().find(|path| std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())) {
        Some(path) => Err(format!("{} is not a regular file, so it is read only at startup", path.display())),
        None => Files::read_as(paths, is_secret).map_err(|error| format!("{error:#}")),
    }
}

fn apply<T, const N: usize>(
    what: &str,
    found: &FilesResult<N>,
    live: &Live<T>,
    make: &impl Fn(&Files<N>) -> anyhow::Result<T>,
) {
    let made = match found {
        Ok(files) => make(files).map(|value| (files, value)),
        Err(error) => Err(anyhow!("{error}")),
    };
    match made {
        Ok((files, value)) => {
            live.replace(value);
            info!("{what}: reloaded from {}, now in effect", files.names());
            warn_if_exposed(files);
        }
        Err(error) => {
            let error = format!("{error:#}").replace('\n', " ");
            warn!("{what}: not reloaded, the current value stays in effect: {error}");
        }
    }
}

fn warn_if_exposed<const N: usize>(files: &Files<N>) {
    let Some(path) = files.paths.last().filter(|_| files.is_secret) else { return };
    if let Some(warning) = exposure_warning(path) {
        warn!("{warning}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> Files<1> {
        Files { paths: [PathBuf::from("f")], contents: [text.as_bytes().to_vec()], is_secret: true }
    }

    #[test]
    fn a_change_is_applied_once_it_was_found_twice() {
        let mut detector = ChangeDetector::new(Ok(files("old")));
        let mut due = |found: FilesResult<1>| detector.is_due(&found, false);
        assert!(!due(Ok(files("old"))));
        assert!(!due(Ok(files("ne"))), "still being written");
        assert!(!due(Ok(files("new"))));
        assert!(due(Ok(files("new"))));
        assert!(!due(Ok(files("new"))), "applied once");
        assert!(!due(Err("missing".into())));
        assert!(!due(Ok(files("new"))), "being replaced by a file with the same content");
        assert!(!due(Err("missing".into())));
        assert!(due(Err("missing".into())), "reported once");
        assert!(!due(Err("missing".into())));
    }

    #[test]
    fn a_request_applies_what_is_there() {
        let mut detector = ChangeDetector::new(Ok(files("old")));
        assert!(detector.is_due(&Ok(files("old")), true));
        assert!(detector.is_due(&Ok(files("new")), true));
        assert!(!detector.is_due(&Ok(files("new")), false), "already applied");
    }

    #[test]
    fn what_is_broken_leaves_the_old_value_in_force() {
        let live = Live::new(1);
        let held = live.current();
        let make = |files: &Files<1>| -> anyhow::Result<i32> {
            let [content] = &files.contents;
            Ok(std::str::from_utf8(content)?.parse()?)
        };
        for (found, in_force) in
            [(Ok(files("2")), 2), (Ok(files("x")), 2), (Err("missing".into()), 2), (Ok(files("3")), 3)]
        {
            apply("a number", &found, &live, &make);
            assert_eq!(*live.current(), in_force);
        }
        assert_eq!(*held, 1, "code that holds the old value keeps it");
    }

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read_again() {
        assert!(read_again([PathBuf::from("/dev/zero")], true).unwrap_err().contains("regular"));
        assert!(read_again([PathBuf::from("/nowhere/at/all")], true).unwrap_err().contains("/nowhere/at/all"));
        assert!(read(Path::new("/dev/zero")).unwrap_err().to_string().contains("larger"));
    }

    #[test]
    fn contents_are_never_shown() {
        let shown = format!("{:?}", files("secret"));
        assert_eq!(shown, r#"["f"]"#);
    }
}
