//! The file that says which log a folder contains, and whether the folder is a primary or a standby.
//!
//! Only folders that take part in replication have the file. It is replaced as a whole, so a crash leaves the old or
//! the new one.
//!
//! The file is text: a first line, `log` and the identity of the log, a line `epoch NUMBER FIRST IDENTITY` for each
//! epoch, and a line with the role.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

const FIRST_LINE: &str = "rowhouse replication 1";

/// A random number that identifies a log, an epoch or a standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity(u128);

impl Identity {
    /// Returns an identity that differs from all others.
    pub fn random() -> Self {
        // The keys of the standard library's hasher come from the operating system.
        let half = || u128::from(RandomState::new().hash_one(0));
        Self(half() << 64 | half())
    }

    /// Reads an identity as it is written.
    pub fn parse(text: &str) -> Option<Self> {
        let is_good = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_good.then(|| u128::from_str_radix(text, 16).ok().map(Self))?
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A period in which one folder was the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// Increases with each promotion.
    pub number: u64,
    /// The number after the last transaction of the previous epoch. Numbers can be skipped before the first transaction
    /// of the epoch.
    pub first: u64,
    /// Differs from other epochs with the same number, which begin if two standbys of a primary are promoted.
    pub id: Identity,
}

/// What a folder may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The folder may be written.
    Primary {
        /// The standby whose confirmations the primary waits for. It is set by the first standby that follows a primary
        /// with `--acknowledge standby`.
        confirming: Option<Identity>,
    },
    /// The folder follows a primary, and only receives what the primary wrote.
    Standby {
        /// Identifies the standby to its primary.
        id: Identity,
        /// What the primary has last said.
        awaited: Awaited,
    },
    /// The folder was a primary until a standby was promoted. It may not be written, unless it is promoted itself.
    Fenced {
        /// The number of the epoch that began with the promotion.
        by: u64,
        /// The first transaction of that epoch, if it is known. The promoted folder has none of this folder's
        /// transactions from this one on.
        first: Option<u64>,
    },
}

/// Whose confirmation a primary waits for before it acknowledges a write, as one of its standbys sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Awaited {
    /// The primary waits for no standby.
    None,
    /// The primary waits for this standby, which has everything that was acknowledged.
    This,
    /// The primary waits, but not for this standby, or this standby does not have everything yet.
    Other,
    /// The primary can never serve this standby again: it no longer has what the standby lacks, or the standby has what
    /// the primary lacks.
    CutOff,
}

/// The log in a folder, and the role of the folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lineage {
    /// The identity of the log, which a primary and its standbys share.
    pub log: Identity,
    /// From the oldest to the newest one; never empty. An epoch may begin before an older one does: if a standby was
    /// promoted that was in the older epoch, but had not received the transactions before it.
    pub epochs: Vec<Epoch>,
    /// What the folder may do.
    pub role: Role,
}

impl Lineage {
    /// Returns the lineage of a log that has never been replicated. The identities are new.
    pub fn new(log: Identity, epoch: Identity) -> Self {
        let first = Epoch { number: 1, first: 1, id: epoch };
        Self { log, epochs: vec![first], role: Role::Primary { confirming: None } }
    }

    /// Returns the newest epoch.
    pub fn newest(&self) -> Epoch {
        *self.epochs.last().expect("a lineage has an epoch")
    }

    /// Returns the number of the newest epoch.
    pub fn epoch(&self) -> u64 {
        self.newest().number
    }

    /// Returns whether a log in an epoch that ends with a transaction is the beginning of this log.
    pub fn continues(&self, epoch: &Epoch, last: u64) -> bool {
        let mut later = self.epochs.iter().filter(|known| known.number > epoch.number);
        self.epochs.contains(epoch) && later.all(|later| last < later.first)
    }

    pub(crate) fn encode(&self) -> String {
        let epoch = |Epoch { number, first, id }: &Epoch| format!("epoch {number} {first} {id}\n");
        let epochs: String = self.epochs.iter().map(epoch).collect();
        let role = match self.role {
            Role::Primary { confirming: None } => "primary".to_owned(),
            Role::Primary { confirming: Some(id) } => format!("primary {id}"),
            Role::Standby { id, awaited: Awaited::None } => format!("standby {id}"),
            Role::Standby { id, awaited: Awaited::This } => format!("standby {id} awaited"),
            Role::Standby { id, awaited: Awaited::Other } => format!("standby {id} not-awaited"),
            Role::Standby { id, awaited: Awaited::CutOff } => format!("standby {id} cut-off"),
            Role::Fenced { by, first: None } => format!("fenced {by}"),
            Role::Fenced { by, first: Some(first) } => format!("fenced {by} {first}"),
        };
        format!("{FIRST_LINE}\nlog {}\n{epochs}{role}\n", self.log)
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let log = Identity::parse(lines.next()?.strip_prefix("log ")?)?;
        let mut epochs: Vec<Epoch> = Vec::new();
        let role = loop {
            let line = lines.next()?;
            let Some(epoch) = line.strip_prefix("epoch ") else { break line };
            let (number, rest) = epoch.split_once(' ')?;
            let (first, id) = rest.split_once(' ')?;
            let epoch = Epoch { number: number.parse().ok()?, first: first.parse().ok()?, id: Identity::parse(id)? };
            let follows = epoch.first > 0 && epochs.last().is_none_or(|last| epoch.number > last.number);
            follows.then(|| epochs.push(epoch))?;
        };
        let role = match role.split_once(' ').unwrap_or((role, "")) {
            ("primary", "") => Role::Primary { confirming: None },
            ("primary", id) => Role::Primary { confirming: Some(Identity::parse(id)?) },
            ("standby", standby) => {
                let (id, awaited) = match standby.split_once(' ') {
                    None => (standby, Awaited::None),
                    Some((id, "awaited")) => (id, Awaited::This),
                    Some((id, "not-awaited")) => (id, Awaited::Other),
                    Some((id, "cut-off")) => (id, Awaited::CutOff),
                    Some(_) => return None,
                };
                Role::Standby { id: Identity::parse(id)?, awaited }
            }
            ("fenced", fence) => match fence.split_once(' ') {
                None => Role::Fenced { by: fence.parse().ok()?, first: None },
                Some((by, first)) => Role::Fenced { by: by.parse().ok()?, first: Some(first.parse().ok()?) },
            },
            _ => return None,
        };
        (lines.next().is_none() && !epochs.is_empty()).then_some(Self { log, epochs, role })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Epoch = Epoch { number: 1, first: 1, id: Identity(0x2a) };
    const SECOND: Epoch = Epoch { number: 3, first: 40, id: Identity(0x2b) };

    fn lineage(role: Role) -> Lineage {
        let epochs = vec![FIRST, SECOND];
        Lineage { log: Identity(0x1f), epochs, role }
    }

    #[test]
    fn the_file_is_read_as_it_is_written() {
        let id = Identity::random();
        let roles = [
            Role::Primary { confirming: None },
            Role::Primary { confirming: Some(id) },
            Role::Standby { id, awaited: Awaited::None },
            Role::Standby { id, awaited: Awaited::This },
            Role::Standby { id, awaited: Awaited::Other },
            Role::Standby { id, awaited: Awaited::CutOff },
            Role::Fenced { by: 4, first: None },
            Role::Fenced { by: 4, first: Some(41) },
        ];
        for role in roles {
            let written = lineage(role);
            let text = written.encode();
            assert_eq!(Lineage::decode(&text), Some(written), "{text}");
            for end in 0..text.len() {
                assert_eq!(Lineage::decode(&text[..end]), None, "cut to {end} bytes: {text}");
            }
            assert_eq!(Lineage::decode(&format!("{text}more\n")), None);
        }
        let text = lineage(Role::Fenced { by: 4, first: None }).encode();
        let expected = "rowhouse replication 1\nlog 0000000000000000000000000000001f\n\
            epoch 1 1 0000000000000000000000000000002a\nepoch 3 40 0000000000000000000000000000002b\nfenced 4\n";
        assert_eq!(text, expected);
        for (from, to) in [
            ("epoch 3", "epoch 1"),
            ("1f", "+f"),
            ("fenced", "other"),
            ("fenced 4", "standby 4 other"),
            ("fenced 4", "fenced 4 "),
            (" 40", " 0"),
            ("2b", "2"),
        ] {
            assert_eq!(Lineage::decode(&text.replace(from, to)), None, "{from} -> {to}");
        }
    }

    #[test]
    fn an_epoch_may_begin_before_the_previous_one() {
        let mut lineage = lineage(Role::Primary { confirming: None });
        lineage.epochs.push(Epoch { number: 4, first: 20, id: Identity(0x2d) });
        assert_eq!(Lineage::decode(&lineage.encode()).as_ref(), Some(&lineage));
        for (epoch, last, expected) in [(FIRST, 19, true), (FIRST, 20, false), (SECOND, 19, true), (SECOND, 40, false)]
        {
            assert_eq!(lineage.continues(&epoch, last), expected, "{epoch:?}, transaction {last}");
        }
    }

    #[test]
    fn a_log_that_was_written_after_the_promotion_does_not_continue() {
        let lineage = lineage(Role::Primary { confirming: None });
        let named = |number| Epoch { number, first: 2, id: Identity(0x2c) };
        let other = Epoch { id: Identity(0x2c), ..SECOND };
        for (epoch, last, expected) in [
            (FIRST, 0, true),
            (FIRST, 39, true),
            (FIRST, 40, false),
            (named(2), 1, false),
            (SECOND, 39, true),
            (SECOND, 400, true),
            (other, 39, false),
            (named(4), 1, false),
        ] {
            assert_eq!(lineage.continues(&epoch, last), expected, "{epoch:?}, transaction {last}");
        }
    }
}
