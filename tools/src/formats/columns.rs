//! Entities as CSV records: the columns that an export writes, and the columns in the header of a file.
//!
//! This follows the convention of Azure Storage Explorer: the column of a property is followed by a column for its
//! type, named `NAME@type`. If an entity lacks a property, both fields are empty. An empty string has a type, which
//! distinguishes it from a missing property.

use crate::formats::csv::{Field, write_field};
use crate::formats::json::{check, forbidden_character, read_line, write_line};
use crate::formats::lines::{Framing, LineError, Lines};
use crate::formats::value::{push_value, write_value};
use crate::option_values::parse_type;
use anyhow::{Context, anyhow, ensure};
use client::PropertyBag;
use model::key::KeyError;
use model::limits::EXPORT_COLUMNS_MAX;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP, check_property_name_within};
use model::record::{DamagedRecord, Property};
use model::{EdmType, EntityKey, EntityLimits, KeyText, RecordBuilder};
use platform::files::private_file;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Seek, Write};
use uuid::Uuid;

const TYPE: &str = "@type";
const RECORD_END: &[u8] = b"\r\n";

/// The properties in the order of their first occurrence.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    names: Vec<String>,
    positions: HashMap<String, usize>,
}

impl Columns {
    /// Adds columns for properties that have no column yet. Returns false if there would be too many columns.
    pub(crate) fn add(&mut self, properties: &RecordBuilder) -> bool {
        for name in properties.properties().filter_map(Result::ok).filter_map(|property| property.name().ok()) {
            if !self.positions.contains_key(name) {
                self.positions.insert(name.to_owned(), self.names.len());
                self.names.push(name.to_owned());
            }
        }
        self.names.len() <= EXPORT_COLUMNS_MAX
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn write_header(&self, out: &mut Vec<u8>, with_timestamp: bool) {
        out.extend_from_slice(PARTITION_KEY.as_bytes());
        out.push(b',');
        out.extend_from_slice(ROW_KEY.as_bytes());
        if with_timestamp {
            out.push(b',');
            out.extend_from_slice(TIMESTAMP.as_bytes());
        }
        for name in &self.names {
            for part in [",", name, ",", name, TYPE] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        out.extend_from_slice(RECORD_END);
    }

    /// Omits properties without a column.
    pub(crate) fn write_entity(
        &self,
        out: &mut Vec<u8>,
        entity: &PropertyBag,
        with_timestamp: bool,
    ) -> Result<(), DamagedRecord> {
        write_field(out, entity.key.partition.as_str().as_bytes());
        out.push(b',');
        write_field(out, entity.key.row.as_str().as_bytes());
        if with_timestamp {
            out.push(b',');
            if let Some(timestamp) = entity.timestamp {
                timestamp.write_to(out);
            }
        }
        let mut text = Vec::new();
        for property in self.arrange(entity.properties.as_record_builder())? {
            out.push(b',');
            if let Some(property) = property {
                text.clear();
                write_value(&mut text, property.value()?);
                write_field(out, &text);
            }
            out.push(b',');
            if let Some(property) = property {
                out.extend_from_slice(property.edm_type().name().as_bytes());
            }
        }
        out.extend_from_slice(RECORD_END);
        Ok(())
    }

    pub(crate) fn arrange<'e>(
        &self,
        properties: &'e RecordBuilder,
    ) -> Result<Vec<Option<Property<'e>>>, DamagedRecord> {
        let mut arranged = vec![None; self.names.len()];
        for property in properties.properties() {
            let property = property?;
            if let Some(slot) = self.positions.get(property.name()?).and_then(|at| arranged.get_mut(*at)) {
                *slot = Some(property);
            }
        }
        Ok(arranged)
    }
}

pub(crate) fn too_many_columns() -> String {
    format!(
        "the entities have more than {EXPORT_COLUMNS_MAX} different properties in total, which is too many columns: \
         choose some with --select, or export JSON Lines"
    )
}

#[derive(Debug)]
enum Column {
    Partition,
    Row,
    /// A value that only the service can set, or a type, which is read together with its value.
    Ignored,
    Property {
        name: String,
        type_at: Option<usize>,
        edm_type: EdmType,
    },
}

#[derive(Debug)]
pub(crate) struct CsvHeader {
    columns: Vec<Column>,
}

impl CsvHeader {
    /// `types` applies to properties without a type column.
    pub(crate) fn read(fields: &[Field<'_>], types: &[(String, EdmType)]) -> Result<Self, LineError> {
        let name = |field: &Field<'_>| field.text.clone().into_owned();
        let names: Vec<String> = fields.iter().map(name).collect();
        let mut positions = HashMap::new();
        for (at, (name, field)) in names.iter().zip(fields).enumerate() {
            if positions.insert(name.as_str(), at).is_some() {
                return Err(LineError::at_column(field.column, format!("the column '{name}' occurs twice")));
            }
        }
        for key in [PARTITION_KEY, ROW_KEY] {
            if !positions.contains_key(key) {
                return Err(LineError::at_column(
                    1,
                    format!("there is no column '{key}': the first line must name the columns"),
                ));
            }
        }
        let columns = names.iter().zip(fields).map(|(name, field)| match name.as_str() {
            PARTITION_KEY => Ok(Column::Partition),
            ROW_KEY => Ok(Column::Row),
            TIMESTAMP => Ok(Column::Ignored),
            other if other.ends_with(TYPE) || other.starts_with("odata.") => Ok(Column::Ignored),
            other if check_property_name_within(other, EntityLimits::WIDEST.name_units_max).is_err() => {
                Err(LineError::at_column(field.column, format!("'{other}' is not a valid property name")))
            }
            other => Ok(Column::Property {
                type_at: positions.get(format!("{other}{TYPE}").as_str()).copied(),
                edm_type: types.iter().find(|(name, _)| name == other).map_or(EdmType::String, |(_, known)| *known),
                name: other.to_owned(),
            }),
        });
        Ok(Self { columns: columns.collect::<Result<_, LineError>>()? })
    }

    pub(crate) fn has(&self, property: &str) -> bool {
        self.columns.iter().any(|column| matches!(column, Column::Property { name, .. } if name == property))
    }

    pub(crate) fn untyped(&self) -> impl Iterator<Item = (usize, &str)> {
        self.columns.iter().enumerate().filter_map(|(at, column)| match column {
            Column::Property { name, type_at: None, .. } => Some((at, name.as_str())),
            _ => None,
        })
    }

    /// Returns an entity that can be stored. A service may accept less.
    pub(crate) fn entity(&self, fields: &[Field<'_>]) -> Result<PropertyBag, LineError> {
        if fields.len() != self.columns.len() {
            let column = fields.get(self.columns.len()).or(fields.last()).map_or(1, |field| field.column);
            let (has, needs) = (fields.len(), self.columns.len());
            return Err(LineError::at_column(
                column,
                format!("the record has {has} fields, but the header has {needs}"),
            ));
        }
        let (mut partition, mut row) = (None, None);
        let mut properties = RecordBuilder::within(&EntityLimits::WIDEST, 256);
        for (column, field) in self.columns.iter().zip(fields) {
            match column {
                Column::Partition => partition = Some(key(PARTITION_KEY, field)?),
                Column::Row => row = Some(key(ROW_KEY, field)?),
                Column::Ignored => {}
                Column::Property { name, type_at, edm_type } => {
                    let declared = type_at.and_then(|at| fields.get(at)).filter(|declared| !declared.text.is_empty());
                    let edm_type = match declared {
                        Some(declared) => parse_type(&declared.text).ok_or_else(|| {
                            let reason = format!("'{}' is not a type such as Edm.Int32", declared.text);
                            LineError::at_column(declared.column, reason)
                        })?,
                        // Without a type column, quotes distinguish an empty string from a missing property.
                        None if field.text.is_empty() && (type_at.is_some() || !field.is_quoted) => continue,
                        None => *edm_type,
                    };
                    push_value(&mut properties, name, edm_type, &field.text)
                        .map_err(|reason| LineError::at_column(field.column, reason))?;
                }
            }
        }
        let (Some(partition), Some(row)) = (partition, row) else {
            return Err(LineError::at_column(1, "the keys are missing"));
        };
        let entity = PropertyBag::of_properties(EntityKey { partition, row }, properties);
        check(&entity)?;
        Ok(entity)
    }
}

fn key(name: &str, field: &Field<'_>) -> Result<KeyText, LineError> {
    KeyText::new(&field.text).map_err(|error| {
        let reason = match error {
            KeyError::TooLong => format!("the {name} is longer than 512 characters"),
            KeyError::Slash | KeyError::ForbiddenCharacter => forbidden_character(name),
        };
        LineError::at_column(field.column, reason)
    })
}

const WHAT: &str = "keeping entities in a temporary file";
const FLUSH_BYTES: usize = 64 * 1024;

/// Keeps entities in a temporary file in JSON Lines format. The file has no name, so it disappears when the process
/// exits.
#[derive(Debug)]
pub(crate) struct CsvSpool {
    file: BufWriter<File>,
    columns: Columns,
    with_timestamps: bool,
}

impl CsvSpool {
    pub(crate) fn new(with_timestamps: bool) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("rowhouse-{}.jsonl", Uuid::new_v4()));
        let what = || format!("creating the temporary file {}", path.display());
        let file = private_file().read(true).write(true).create_new(true).open(&path).with_context(what)?;
        std::fs::remove_file(&path).with_context(what)?;
        Ok(Self { file: BufWriter::new(file), columns: Columns::default(), with_timestamps })
    }

    pub(crate) fn push(&mut self, entities: &[PropertyBag]) -> anyhow::Result<()> {
        let mut line = Vec::new();
        for entity in entities {
            ensure!(self.columns.add(entity.properties.as_record_builder()), too_many_columns());
            line.clear();
            write_line(&mut line, entity, self.with_timestamps).map_err(|_| anyhow!("an entity is damaged"))?;
            line.push(b'\n');
            self.file.write_all(&line).context(WHAT)?;
        }
        Ok(())
    }

    pub(crate) fn write_to(self, out: &mut impl Write) -> anyhow::Result<()> {
        let Self { file, columns, with_timestamps } = self;
        let mut file = file.into_inner().map_err(std::io::IntoInnerError::into_error).context(WHAT)?;
        file.rewind().context(WHAT)?;
        let mut text = Vec::new();
        columns.write_header(&mut text, with_timestamps);
        let mut lines = Lines::new(BufReader::new(file), Framing::Lines, 0, 0);
        while let Some(line) = lines.next().context(WHAT)? {
            let entity = read_line(line.bytes).map_err(|error| anyhow!("{WHAT}: {}", error.reason))?;
            columns.write_entity(&mut text, &entity, with_timestamps).map_err(|_| anyhow!("an entity is damaged"))?;
            if text.len() >= FLUSH_BYTES {
                out.write_all(&text)?;
                text.clear();
            }
        }
        out.write_all(&text)?;
        Ok(out.flush()?)
    }
}

/// A Double preserves every decimal number with this many digits. Numbers with more digits are not guessed to be
/// Doubles.
const DOUBLE_DIGITS_MAX: usize = 15;
/// The length of a time with a date and a zone, such as 2031-04-01T06:30:00Z.
const TIME_CHARACTERS_MIN: usize = 20;
/// The length of a GUID without braces.
const GUID_CHARACTERS: usize = 36;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TypeGuess(Option<EdmType>);

impl TypeGuess {
    pub(crate) fn add(&mut self, text: &str) {
        let found = type_of(text);
        self.0 = Some(self.0.map_or(found, |known| common(known, found)));
    }

    /// Returns a string type if there was no value.
    pub(crate) fn edm_type(self) -> EdmType {
        self.0.unwrap_or(EdmType::String)
    }
}

fn common(one: EdmType, other: EdmType) -> EdmType {
    use EdmType::{Double, Int32, Int64, String};
    match (one, other) {
        _ if one == other => one,
        (Int32, Int64) | (Int64, Int32) => Int64,
        (Int32, Double) | (Double, Int32) => Double,
        // A Double would round a long whole number.
        _ => String,
    }
}

fn type_of(text: &str) -> EdmType {
    let is_of = |edm_type| push_value(&mut RecordBuilder::default(), "V", edm_type, text).is_ok();
    let digits = text.strip_prefix('-').unwrap_or(text);
    // A number with leading zeros is a code, and its zeros matter.
    let is_code = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if digits.starts_with(|first: char| first.is_ascii_digit()) && !is_code && !text.ends_with(['.', 'e', 'E']) {
        let is_whole = digits.bytes().all(|b| b.is_ascii_digit());
        let whole = [EdmType::Int32, EdmType::Int64].into_iter().find(|edm_type| is_of(*edm_type));
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let is_exact = mantissa.bytes().filter(u8::is_ascii_digit).count() <= DOUBLE_DIGITS_MAX;
        match whole {
            Some(whole) if is_whole => return whole,
            _ if !is_whole && is_exact && is_of(EdmType::Double) => return EdmType::Double,
            _ => {}
        }
    }
    if is_of(EdmType::Boolean) {
        EdmType::Boolean
    } else if text.len() >= TIME_CHARACTERS_MIN && text.ends_with('Z') && is_of(EdmType::DateTime) {
        EdmType::DateTime
    } else if text.len() == GUID_CHARACTERS && is_of(EdmType::Guid) {
        EdmType::Guid
    } else {
        EdmType::String
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::csv::parse;
    use model::EdmValue;

    fn header(record: &str, types: &[(&str, EdmType)]) -> Result<CsvHeader, LineError> {
        let types: Vec<_> = types.iter().map(|(name, edm_type)| ((*name).to_owned(), *edm_type)).collect();
        CsvHeader::read(&parse(record.as_bytes()).unwrap(), &types)
    }

    fn read(header: &CsvHeader, record: &str) -> Result<String, LineError> {
        let entity = header.entity(&parse(record.as_bytes()).unwrap())?;
        let shown = entity.properties.as_record_builder().properties().map(|property| {
            let property = property.unwrap();
            format!("{}={:?}", property.name().unwrap(), property.value().unwrap())
        });
        Ok(shown.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_is_written_is_read_and_a_missing_property_is_not_an_empty_string() {
        let key = || EntityKey { partition: KeyText::new("a,\"b\"").unwrap(), row: KeyText::new("").unwrap() };
        let mut one = RecordBuilder::default();
        one.push("Text", EdmValue::String(""));
        one.push("Weight", EdmValue::Double(-0.0));
        let mut two = RecordBuilder::default();
        two.push("Bytes", EdmValue::Binary(&[]));
        let entities = [PropertyBag::of_properties(key(), one), PropertyBag::of_properties(key(), two)];
        let mut columns = Columns::default();
        assert!(entities.iter().all(|entity| columns.add(entity.properties.as_record_builder())));
        let mut file = Vec::new();
        columns.write_header(&mut file, false);
        for entity in &entities {
            columns.write_entity(&mut file, entity, false).unwrap();
        }
        let text = String::from_utf8(file).unwrap();
        let expected = "PartitionKey,RowKey,Text,Text@type,Weight,Weight@type,Bytes,Bytes@type\r\n\
                        \"a,\"\"b\"\"\",,,Edm.String,-0.0,Edm.Double,,\r\n\"a,\"\"b\"\"\",,,,,,,Edm.Binary\r\n";
        assert_eq!(text, expected);
        let mut records = text.split_terminator("\r\n");
        let header = header(records.next().unwrap(), &[]).unwrap();
        let read: Vec<PropertyBag> =
            records.map(|record| header.entity(&parse(record.as_bytes()).unwrap()).unwrap()).collect();
        assert_eq!(read, entities);
    }

    #[test]
    fn files_of_other_tools() {
        let header = header("PartitionKey,RowKey,Timestamp,Age,Age@type,Name,Born", &[("Born", EdmType::DateTime)]);
        let header = header.unwrap();
        for (record, expected) in [
            (
                "p,r,x,5,Edm.Int32,Ann,2001-01-01T00:00:00Z",
                "Age=Int32(5) Name=String(\"Ann\") Born=DateTime(DateTime(126227808000000000))",
            ),
            ("p,r,x,5,Int64,,", "Age=Int64(5)"),
            ("p,r,x,,,\"\",", "Name=String(\"\")"),
            ("p,r,x,5,,,", "Age=String(\"5\")"),
        ] {
            assert_eq!(read(&header, record).as_deref(), Ok(expected), "{record}");
        }
        for (record, column, reason) in [
            ("p,r,x,5,Edm.Int32,Ann", 19, "the record has 6 fields, but the header has 7"),
            ("p,r,x,5,Edm.Int5,,", 9, "'Edm.Int5' is not a type such as Edm.Int32"),
            ("p,r,x,five,Edm.Int32,,", 7, "the value of 'Age' is not Edm.Int32 (a whole number of 32 bits)"),
            (
                "p/,r,x,,,,",
                1,
                "the PartitionKey contains a character that keys cannot have: / \\ # ? or a control character",
            ),
        ] {
            assert_eq!(read(&header, record), Err(LineError::at_column(column, reason)), "{record}");
        }
    }

    #[test]
    fn malformed_headers() {
        for (record, reason) in [
            ("PartitionKey,Name", "there is no column 'RowKey'"),
            ("PartitionKey,RowKey,a-b", "'a-b' is not a valid property name"),
            ("PartitionKey,RowKey,a,a", "the column 'a' occurs twice"),
        ] {
            let error = header(record, &[]).unwrap_err();
            assert!(error.reason.starts_with(reason), "{error:?}");
        }
    }

    #[test]
    fn a_column_has_the_type_that_its_values_have_in_common() {
        for (values, expected) in [
            (&[][..], EdmType::String),
            (&["0", "-5", "2147483647"], EdmType::Int32),
            (&["1", "2147483648"], EdmType::Int64),
            (&["-9223372036854775808"], EdmType::Int64),
            // A number that does not fit in an Int64 would lose digits as a Double.
            (&["9223372036854775808"], EdmType::String),
            (&["9007199254740993", "1.5"], EdmType::String),
            (&["0.1234567890123456789"], EdmType::String),
            (&["1", "1.5", "0.5", "2e10"], EdmType::Double),
            (&["1e400"], EdmType::String),
            (&["007"], EdmType::String),
            (&["-01.5"], EdmType::String),
            (&["1."], EdmType::String),
            (&["+1"], EdmType::String),
            (&["-"], EdmType::String),
            (&["NaN"], EdmType::String),
            (&["true", "FALSE"], EdmType::Boolean),
            (&["true", "1"], EdmType::String),
            (&["2031-04-01T06:30:00Z", "2031-04-01T06:30:00.1234567Z"], EdmType::DateTime),
            (&["2031-04-01"], EdmType::String),
            (&["01234567-89ab-cdef-0123-456789abcdef"], EdmType::Guid),
            (&["{01234567-89ab-cdef-0123-456789abcdef}"], EdmType::String),
            (&["1", ""], EdmType::String),
            (&["words"], EdmType::String),
        ] {
            let mut guess = TypeGuess::default();
            for value in values {
                guess.add(value);
            }
            assert_eq!(guess.edm_type(), expected, "{values:?}");
        }
    }
}
