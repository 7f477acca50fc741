use ring::digest::{Context, SHA256, digest};
use std::fmt::Write as _;
use std::io;

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// A writer that hashes and counts the bytes that it passes on.
pub(crate) struct Sha256Writer<W> {
    out: W,
    context: Context,
    bytes: u64,
}

impl<W> Sha256Writer<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, context: Context::new(&SHA256), bytes: 0 }
    }

    /// Continues after bytes that were written earlier.
    pub(crate) fn after(out: W, mut written: impl io::Read) -> io::Result<Self> {
        let mut hashed = Sha256Writer::new(io::sink());
        io::copy(&mut written, &mut hashed)?;
        Ok(Self { out, context: hashed.context, bytes: hashed.bytes })
    }

    pub(crate) fn inner(&self) -> &W {
        &self.out
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the inner writer, the number of bytes, and their hash.
    pub(crate) fn finish(self) -> (W, u64, String) {
        (self.out, self.bytes, hex(self.context.finish().as_ref()))
    }
}

impl<W: io::Write> io::Write for Sha256Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.context.update(bytes.get(..written).unwrap_or_default());
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to memory cannot fail");
    }
    text
}
