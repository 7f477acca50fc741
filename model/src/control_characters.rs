//! Characters that must be escaped before they are shown to people.

/// Returns whether a character controls a terminal (C0, DEL, C1), ends a line, or changes the direction of text.
pub fn is_control_character(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}
