//! Composite keys: writing them, and splitting them into their parts.
//!
//! A key consists of literals and of runs of parts between them. At most one part of a run has a variable width, as the
//! derive macro ensures. That part gets the bytes that the other parts leave.
//!
//! Invariant: reading a key returns the parts that were written, and a string in any other format is an error.
//!
//! This module must not depend on the types of the parts.

use super::error::{EntityError, KeyName, ValueError};
use super::key::{KeyFormat, KeyOperand};
use model::EntityKey;
use std::borrow::Cow;

/// Writes one key.
#[derive(Debug)]
pub struct KeyWriter {
    key: KeyName,
    text: String,
    run_at: usize,
    variable: Option<&'static str>,
}

impl KeyWriter {
    /// Creates a writer for an empty key.
    pub fn new(key: KeyName) -> Self {
        Self { key, text: String::new(), run_at: 0, variable: None }
    }

    fn part<T, F: KeyFormat<T>>(&mut self, field: &'static str, value: &impl KeyOperand<T>) -> Result<(), EntityError> {
        let start = self.text.len();
        let outcome = value.write_as::<F>(&mut self.text);
        let fail = |reason| Err(EntityError::KeyPart { key: self.key, field, reason });
        match outcome {
            Ok(()) => {}
            Err(ValueError::Invalid(reason)) => return fail(reason),
            Err(error) => return fail(error.to_string().into()),
        }
        match F::WIDTH {
            Some(width) if self.text.len() - start != width => fail(format!("it is not {width} bytes wide").into()),
            Some(_) => Ok(()),
            None => {
                self.variable = Some(field);
                Ok(())
            }
        }
    }

    /// Appends a literal. Fails if a reader would find the literal too early.
    pub fn literal(&mut self, literal: &str) -> Result<(), EntityError> {
        let run_bytes = self.text.len() - self.run_at;
        self.text.push_str(literal);
        let run = self.text.get(self.run_at..).unwrap_or_default();
        if let Some(field) = self.variable.take()
            && run.find(literal) != Some(run_bytes)
        {
            let reason = format!("it contains or completes '{literal}', which must first occur after the part").into();
            return Err(EntityError::KeyPart { key: self.key, field, reason });
        }
        self.run_at = self.text.len();
        Ok(())
    }

    /// Returns the key.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Reads one key.
#[derive(Debug)]
pub struct KeyReader<'a> {
    key: KeyName,
    text: &'a str,
    rest: &'a str,
}

impl<'a> KeyReader<'a> {
    /// Creates a reader at the start of a key.
    pub fn new(key: KeyName, text: &'a str) -> Self {
        Self { key, text, rest: text }
    }

    /// Splits a run of parts with the given widths. The run ends before a literal or at the end of the key.
    pub fn run<const N: usize>(
        &mut self,
        widths: [Option<usize>; N],
        literal: Option<&str>,
    ) -> Result<[&'a str; N], EntityError> {
        let fixed: usize = widths.iter().flatten().sum();
        let is_variable = widths.contains(&None);
        let run_bytes = match literal {
            Some(literal) if is_variable => self.rest.find(literal),
            None => Some(self.rest.len()),
            Some(_) => Some(fixed),
        };
        let run_bytes = run_bytes.filter(|bytes| if is_variable { *bytes >= fixed } else { *bytes == fixed });
        let run = run_bytes.and_then(|bytes| self.rest.split_at_checked(bytes));
        let (mut run, after) = run.ok_or_else(|| self.form_error("a part is missing, too short or too long"))?;
        let variable = run.len() - fixed;
        let mut parts = [""; N];
        for (part, width) in parts.iter_mut().zip(widths) {
            let taken = run.split_at_checked(width.unwrap_or(variable));
            (*part, run) =
                taken.ok_or_else(|| self.form_error("a part of fixed width contains non-ASCII characters"))?;
        }
        let rest = after.strip_prefix(literal.unwrap_or_default());
        self.rest = rest.ok_or_else(|| self.form_error(format!("'{}' is missing", literal.unwrap_or_default())))?;
        Ok(parts)
    }

    fn part<T, F: KeyFormat<T>>(&self, field: &'static str, text: &str) -> Result<T, EntityError> {
        let fail = |error: ValueError| self.form_error(format!("the field '{field}': {error}"));
        let value = F::read(text).map_err(fail)?;
        self.check::<T, F>(field, text, &value)?;
        Ok(value)
    }

    fn check<T, F: KeyFormat<T>>(&self, field: &'static str, text: &str, value: &T) -> Result<(), EntityError> {
        let mut written = String::with_capacity(text.len());
        let outcome = F::write(value, &mut written);
        if outcome.is_ok() && written == text {
            return Ok(());
        }
        Err(self.form_error(format!("the field '{field}' would be written as '{written}' instead of '{text}'")))
    }

    fn form_error(&self, reason: impl Into<Cow<'static, str>>) -> EntityError {
        EntityError::KeyForm { key: self.key, text: Box::from(self.text), reason: reason.into() }
    }
}

/// A field that is a part of a key in the format `F`. Generated code names the type of a part only in this trait,
/// because the compiler merges the errors about an unsuitable type only if they fail on the same trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key in the format `{F}`",
    label = "not a type of key parts in this format",
    note = "key types are String, integers, Guid, DateTime, SystemTime and types of the crate's features; `padded` and `inverted` are for integers and instants",
    note = "implement `KeyValue` for your own type, and `KeyNumber` for `padded` and `inverted`"
)]
pub trait KeyPart<F>: Sized {
    /// The width of every string; `None` if the width varies.
    const WIDTH: Option<usize>;

    /// Appends a part.
    fn write(writer: &mut KeyWriter, field: &'static str, value: &impl KeyOperand<Self>) -> Result<(), EntityError>;

    /// Parses a part.
    fn read(reader: &KeyReader<'_>, field: &'static str, text: &str) -> Result<Self, EntityError>;

    /// Checks that the value is written as the given string, so that a changed entity keeps the key with which it was
    /// read.
    fn check(&self, reader: &KeyReader<'_>, field: &'static str, text: &str) -> Result<(), EntityError>;
}

#[diagnostic::do_not_recommend]
impl<T, F: KeyFormat<T>> KeyPart<F> for T {
    const WIDTH: Option<usize> = F::WIDTH;

    fn write(writer: &mut KeyWriter, field: &'static str, value: &impl KeyOperand<T>) -> Result<(), EntityError> {
        writer.part::<T, F>(field, value)
    }

    fn read(reader: &KeyReader<'_>, field: &'static str, text: &str) -> Result<T, EntityError> {
        reader.part::<T, F>(field, text)
    }

    fn check(&self, reader: &KeyReader<'_>, field: &'static str, text: &str) -> Result<(), EntityError> {
        reader.check::<T, F>(field, text, self)
    }
}

pub(crate) fn read_key<T, F: KeyFormat<T>>(key: &EntityKey, name: KeyName) -> Result<T, EntityError> {
    let text = match name {
        KeyName::Partition => &key.partition,
        KeyName::Row => &key.row,
    };
    KeyReader::new(name, text.as_str()).part::<T, F>("key", text.as_str())
}
