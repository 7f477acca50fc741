//! The reasons for rejecting a token, in the words of its author.
//!
//! Invariant: [`defect`] depends on nothing but the query string and the time, so that a client whose token has no
//! valid signature does not learn more from it than it knows.

use super::error::SasError;
use super::fields::Fields;
use super::interpretations;
use super::terms::Sas;
use crate::reason::{Reason, ReasonKind, rough_duration};
use model::DateTime;
use std::time::Duration;

/// Returns the mistake that a token itself shows, whether or not its signature is right.
pub fn defect(query: &str, now: DateTime) -> Option<Reason> {
    let interpretations = match interpretations(query) {
        Ok(interpretations) => interpretations,
        Err(error) => return Some(visible(&error)),
    };
    let defects: Option<Vec<_>> = interpretations.into_iter().map(|fields| defect_of(fields, now)).collect();
    defects?.into_iter().next()
}

fn defect_of(fields: Fields<'_>, now: DateTime) -> Option<Reason> {
    if fields.kind().is_none() {
        return Some(ReasonKind::SasIncomplete.because(incomplete(&fields)));
    }
    if fields.signature().is_none() {
        return Some(ReasonKind::SignatureMalformed.because("The field sig is not the Base64 form of 32 bytes."));
    }
    let mut values = fields.clone();
    match Sas::read(fields, 0) {
        Ok(sas) => sas.own_defect(now).map(|error| time_defect(&error).unwrap_or_else(|| visible(&error))),
        Err(SasError::Field(name)) => {
            let reason = visible(&SasError::Field(name));
            // Keys may be values of entities.
            let is_key = matches!(name, "spk" | "srk" | "epk" | "erk");
            let value = values.named().into_iter().find(|(known, _)| *known == name && !is_key);
            Some(value.into_iter().fold(reason, |reason, (_, value)| reason.quoting(value)))
        }
        Err(error) => Some(visible(&error)),
    }
}

fn visible(error: &SasError) -> Reason {
    match error {
        SasError::Field(name) => ReasonKind::SasField.because(format!(
            "The field {name} of the shared access signature is malformed or misplaced. {}",
            expected(name)
        )),
        SasError::Repeated(name) => {
            ReasonKind::SasField.because(format!("The field {name} of the shared access signature is given twice."))
        }
        SasError::ControlCharacter(name) => ReasonKind::SasField.because(format!(
            "The field {name} of the shared access signature contains a control character, such as a line break."
        )),
        SasError::Missing(name) => ReasonKind::SasField
            .because(format!("The field {name} is missing, and the shared access signature names no policy (si).")),
        error => error.reason(),
    }
}

fn incomplete(fields: &Fields<'_>) -> &'static str {
    match (fields.services.is_empty(), fields.resources.is_empty()) {
        _ if fields.signature.is_empty() => "The field sig is missing in the shared access signature.",
        _ if fields.version.is_empty() => "The field sv is missing in the shared access signature.",
        (true, false) => "The shared access signature has srt, but ss is missing.",
        (false, true) => "The shared access signature has ss, but srt is missing.",
        _ => {
            "The shared access signature has neither tn, as one for a table has, nor ss and srt, as one for an account has."
        }
    }
}

fn time_defect(error: &SasError) -> Option<Reason> {
    let ([start_name, expiry_name], [start, expiry, now]) = match error {
        SasError::Time { start, expiry, now } => (["st", "se"], [start, expiry, now]),
        SasError::KeyTime { start, expiry, now } => (["skt", "ske"], [start, expiry, now]),
        _ => return None,
    };
    let [start, expiry, now] = [start, expiry, now].map(|text| DateTime::parse(text).ok());
    let (now, expiry) = (now?, expiry?);
    let apart = |from: DateTime, to: DateTime| {
        let apart = to.to_system_time().duration_since(from.to_system_time());
        rough_duration(apart.unwrap_or(Duration::ZERO))
    };
    if expiry < now {
        let detail =
            format!("The shared access signature expired {} ago ({expiry_name}={expiry}).", apart(expiry, now));
        return Some(ReasonKind::SasExpired.because(detail));
    }
    let start = start?;
    if now < start {
        let ahead = apart(now, start);
        let detail = format!("The shared access signature becomes valid in {ahead} ({start_name}={start}).");
        return Some(ReasonKind::SasNotYetValid.because(detail));
    }
    let detail = format!("The shared access signature expires ({expiry_name}) before it becomes valid ({start_name}).");
    Some(ReasonKind::SasField.because(detail))
}

impl SasError {
    /// Returns the reason for rejecting a token without a [`defect`]. It depends on keys or policies, so it is only for
    /// the log.
    pub fn reason(&self) -> Reason {
        let kind = ReasonKind::SasPolicy;
        match self {
            Self::UnknownPolicy => {
                kind.because("The table has no stored access policy with the identifier in the signature (si).")
            }
            Self::PolicyClash(name) => {
                kind.because(format!("The field {name} is in the signature and in its stored access policy."))
            }
            Self::Missing(name) => {
                kind.because(format!("Neither the signature nor its stored access policy has the field {name}."))
            }
            Self::Time { .. } | Self::KeyTime { .. } => {
                kind.because("The stored access policy of the signature has expired, or is not valid yet.")
            }
            Self::Kind | Self::Field(_) | Self::Repeated(_) | Self::ControlCharacter(_) | Self::Signature(_) => {
                ReasonKind::SignatureMismatch.because("")
            }
        }
    }
}

/// Returns what the field must contain.
fn expected(name: &str) -> &'static str {
    match name {
        "sv" => {
            "It is a version of the service: at least 2012-02-12 for a table, 2015-04-05 for an account, and 2025-07-05 with \
             a user delegation key."
        }
        "st" | "se" | "skt" | "ske" => "It is a time in UTC, such as 2031-03-14T08:15:30Z.",
        "sp" => "It consists of letters: of r, a, u and d for a table; of r, w, d, l, a, c and u for an account.",
        "sip" => "It is an IP address or a range such as 10.0.0.1-10.0.0.9, since version 2015-04-05.",
        "spr" => "It is 'https' or 'https,http', since version 2015-04-05.",
        "ss" => "It consists of the letters b, q, t and f, with t for tables.",
        "srt" => "It consists of the letters s, c and o.",
        "srk" => "It requires spk.",
        "erk" => "It requires epk.",
        "ses" => "Only an account SAS since version 2020-12-06 has it.",
        "si" => "Only a table SAS that is signed with an account key has it.",
        _ => "It must be percent-encoded UTF-8.",
    }
}
