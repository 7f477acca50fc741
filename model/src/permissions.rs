//! What a shared access signature or a stored access policy permits (specification 08 §3).
//!
//! This module must not know which operation needs which permission; [`crate::grant`] does.

use std::fmt;

/// A set of permissions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions(u8);

impl Permissions {
    /// Nothing is permitted.
    pub const NONE: Self = Self(0);
    /// `r`: read and query entities; read properties and statistics of the service.
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
    /// `w`: create tables; set properties of the service.
    pub const WRITE: Self = Self(1 << 6);
    /// `raud`: everything that a table can permit.
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
    /// Letters of an account SAS that have a meaning for other services only.
    const LETTERS_OF_OTHER_SERVICES: &str = "pyxtfi";

    /// Reads the letters of a table SAS or of a policy; `None` if one of them is not of `raud`.
    ///
    /// UNVERIFIED (08 §3): that the order of the letters, and one given twice, do not matter.
    pub fn of_table(letters: &str) -> Option<Self> {
        letters.chars().try_fold(Self::NONE, |known, letter| {
            Self::of_letter(letter)
                .filter(|permission| Self::ENTITIES.contains(*permission))
                .map(|new| known.union(new))
        })
    }

    /// Reads the letters of an account SAS; `None` if one of them is not a permission of any service.
    ///
    /// Letters that mean nothing to the Table service are ignored (08 §3.2).
    pub fn of_account(letters: &str) -> Option<Self> {
        letters.chars().try_fold(Self::NONE, |known, letter| match Self::of_letter(letter) {
            Some(new) => Some(known.union(new)),
            None => Self::LETTERS_OF_OTHER_SERVICES.contains(letter).then_some(known),
        })
    }

    fn of_letter(letter: char) -> Option<Self> {
        Self::LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, permission)| *permission)
    }

    /// The permissions of both sets.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all permissions of the other set are in this one.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any permission of the other set is in this one.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
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
        assert_eq!(Permissions::of_table("raud"), Some(Permissions::ENTITIES));
        assert_eq!(Permissions::of_table("duar"), Some(Permissions::ENTITIES), "the order does not matter");
        assert_eq!(Permissions::of_table(""), Some(Permissions::NONE));
        for refused in ["l", "w", "rx", "R", "r "] {
            assert_eq!(Permissions::of_table(refused), None, "{refused}");
        }
        assert_eq!(Permissions::of_account("rwdlacupyxtfi").unwrap().to_string(), "raudlcw");
        for refused in ["z", "r,w", "R"] {
            assert_eq!(Permissions::of_account(refused), None, "{refused}");
        }
    }
}
