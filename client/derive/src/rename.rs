//! Naming rules for properties.

use syn::{Error, LitStr};

#[derive(Clone, Copy)]
pub(crate) enum RenameRule {
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Lower,
    Upper,
}

const RULES: [(&str, RenameRule); 6] = [
    ("PascalCase", RenameRule::Pascal),
    ("camelCase", RenameRule::Camel),
    ("snake_case", RenameRule::Snake),
    ("SCREAMING_SNAKE_CASE", RenameRule::ScreamingSnake),
    ("lowercase", RenameRule::Lower),
    ("UPPERCASE", RenameRule::Upper),
];

impl RenameRule {
    pub(crate) fn parse(name: &LitStr) -> syn::Result<Self> {
        let value = name.value();
        let found = RULES.iter().find(|(known, _)| *known == value);
        found.map(|(_, rule)| *rule).ok_or_else(|| {
            let known: Vec<_> = RULES.iter().map(|(known, _)| format!("\"{known}\"")).collect();
            Error::new(name.span(), format!("unknown naming rule; expected one of {}", known.join(", ")))
        })
    }

    pub(crate) fn apply(self, field: &str) -> String {
        let capitalized = || field.split('_').map(capitalize).collect::<String>();
        match self {
            Self::Pascal => capitalized(),
            Self::Camel => uncapitalize(&capitalized()),
            Self::Snake => field.to_owned(),
            Self::ScreamingSnake => field.to_uppercase(),
            Self::Lower => field.replace('_', "").to_lowercase(),
            Self::Upper => field.replace('_', "").to_uppercase(),
        }
    }
}

fn capitalize(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

fn uncapitalize(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule() {
        for (rule, expected) in [
            (RenameRule::Pascal, "FirstName2"),
            (RenameRule::Camel, "firstName2"),
            (RenameRule::Snake, "first_name_2"),
            (RenameRule::ScreamingSnake, "FIRST_NAME_2"),
            (RenameRule::Lower, "firstname2"),
            (RenameRule::Upper, "FIRSTNAME2"),
        ] {
            assert_eq!(rule.apply("first_name_2"), expected);
        }
        assert_eq!(RenameRule::Pascal.apply("_x"), "X");
        assert_eq!(RenameRule::Camel.apply(""), "");
    }
}
