//! The names of the files in a repository. A name from a folder or a manifest is used only if it matches one of these
//! patterns.

const INCOMPLETE_SUFFIX: &str = ".new";
const CHUNK_CHARS: usize = 64;
const LOG_CHARS: usize = 32;
/// A pattern in which `0` matches any digit, and `x` any hexadecimal digit.
const BACKUP: &[u8] = b"00000000T0000000000000Z-xxxxxxxxxxxxxxxx";

pub(super) fn is_chunk(name: &str) -> bool {
    name.len() == CHUNK_CHARS && name.bytes().all(is_hex)
}

pub(super) fn is_chunk_folder(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(is_hex)
}

/// Returns true for the identifier of a log, which is also the name of its folder.
pub(super) fn is_log(name: &str) -> bool {
    name.len() == LOG_CHARS && name.bytes().all(is_hex)
}

pub(super) fn is_backup(id: &str) -> bool {
    let fits = |(found, pattern): (u8, &u8)| match pattern {
        b'0' => found.is_ascii_digit(),
        b'x' => is_hex(found),
        letter => found == *letter,
    };
    id.len() == BACKUP.len() && id.bytes().zip(BACKUP).all(fits)
}

/// Returns the name of the folder of a chunk.
pub(super) fn chunk_folder(name: &str) -> &str {
    name.get(..2).unwrap_or_default()
}

pub(super) fn incomplete_name(name: &str) -> String {
    format!("{name}{INCOMPLETE_SUFFIX}")
}

/// Returns true if `is_finished` accepts the final name of the file. Between the final name and the suffix, the name
/// contains the ID of the writing process and the number of the file.
pub(super) fn is_incomplete(name: &str, is_finished: impl Fn(&str) -> bool) -> bool {
    let Some(name) = name.strip_suffix(INCOMPLETE_SUFFIX) else { return false };
    let is_numbers = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_finished(name) || name.rsplit_once('.').is_some_and(|(name, numbers)| is_finished(name) && is_numbers(numbers))
}

fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_rowhouse_gives_are_accepted() {
        let chunk = "0a".repeat(32);
        let backup = "20260304T0506071234567Z-0123456789abcdef";
        assert!(is_chunk(&chunk) && is_chunk_folder("0a") && is_backup(backup));
        for name in
            ["", "..", "0A", "0", "/dev/zero", &chunk.to_uppercase(), &format!("{chunk}0"), &"../".repeat(22)[..64]]
        {
            assert!(!is_chunk(name) && !is_chunk_folder(name) && !is_backup(name), "{name}");
        }
        for at in 0..backup.len() {
            let mut other = backup.to_owned();
            other.replace_range(at..=at, "/");
            assert!(!is_backup(&other), "{other}");
        }
        for (name, expected) in [
            (chunk.clone(), false),
            (incomplete_name(&chunk), true),
            (incomplete_name(&format!("{chunk}.17-3")), true),
            (incomplete_name(&format!("{chunk}.own")), false),
            (incomplete_name("notes"), false),
        ] {
            assert_eq!(is_incomplete(&name, is_chunk), expected, "{name}");
        }
    }
}
