//! The permissions of a shared access signature or a stored access policy (08 §3).
//!
//! This module must not know which operation requires which permission; that is the task of [`crate::grant`].

use std::fmt;

/// A set of permissions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions(u8);

impl Permissions {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// `r`: read and query entities; read the service's properties and statistics.
    pub const READ: Self = Self(1);
    /// `a`: add entities.
    pub const ADD: Self = Self(1 << 1);
    /// `u`: update entities.
    pub const UPDATE: Self = Self(1 << 2);
    /// `d`: delete entities and tables.
    pub const DELETE: Self = Self(1 << 3);
    /// `l`: list tables.
    pub const LIST: Self = Self(1 << 4);
    /// `c`: create tables.
    pub const CREATE: Self = Self(1 << 5);
    /// `w`: create tables; set the service's properties.
    pub const WRITE: Self = Self(1 << 6);
    /// `raud`: all permissions on entities, which is everything that a table SAS can permit.
    pub const ENTITIES: Self = Self(Self::READ.0 | Self::ADD.0 | Self::UPDATE.0 | Self::DELETE.0);

    /// The letters, in the order in which they are printed.
    const LETTERS: [(char, Self); 7] = [
        ('r', Self::READ),
        ('a', Self::ADD),
        ('u', Self::UPDATE),
        ('d', Self::DELETE),
        ('l', Self::LIST),
        ('c', Self::CREATE),
        ('w', Self::WRITE),
    ];
    /// Letters of an account SAS that are meaningful only to other services.
    const LETTERS_OF_OTHER_SERVICES: &str = "pyxtfi";

    /// Parses the letters of a table SAS or a policy. Returns `None` if a letter is not in `raud`. UNVERIFIED (08 §3):
    /// the order of the letters and repeated letters do not matter.
    pub fn parse_table(letters: &str) -> Option<Self> {
        letters.chars().try_fold(Self::NONE, |known, letter| {
            Self::from_letter(letter)
                .filter(|permission| Self::ENTITIES.contains(*permission))
                .map(|new| known.union(new))
        })
    }

    /// Parses the letters of an account SAS. Returns `None` if a letter is not a permission of any service. Letters
    /// that are meaningless to the Table service are ignored (08 §3.2).
    pub fn parse_account(letters: &str) -> Option<Self> {
        letters.chars().try_fold(Self::NONE, |known, letter| match Self::from_letter(letter) {
            Some(new) => Some(known.union(new)),
            None => Self::LETTERS_OF_OTHER_SERVICES.contains(letter).then_some(known),
        })
    }

    fn from_letter(letter: char) -> Option<Self> {
        Self::LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, permission)| *permission)
    }

    /// Returns the union of both sets.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether this set contains all permissions of the other set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, permission) in Self::LETTERS {
            if self.contains(permission) {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permissions({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters() {
        assert_eq!(Permissions::parse_table("raud"), Some(Permissions::ENTITIES));
        assert_eq!(Permissions::parse_table("duar"), Some(Permissions::ENTITIES), "the order does not matter");
        assert_eq!(Permissions::parse_table(""), Some(Permissions::NONE));
        for refused in ["l", "w", "rx", "R", "r "] {
            assert_eq!(Permissions::parse_table(refused), None, "{refused}");
        }
        assert_eq!(Permissions::parse_account("rwdlacupyxtfi").unwrap().to_string(), "raudlcw");
        for refused in ["z", "r,w", "R"] {
            assert_eq!(Permissions::parse_account(refused), None, "{refused}");
        }
    }
}
