use super::Grammar::{Extended, Service};
use super::{FilterError, FilterErrorCode, print};
use crate::error::{ErrorCode, ServiceError};
use model::filter::{Call, Comparison, Literal, Operator, PropertyName, StringFunction};
use model::limits::{FILTER_DEPTH_MAX, FILTER_TEXT_BYTES_MAX};
use model::{DateTime, EntityKey, EntityView, Filter, Guid, KeyText, RecordBuilder};
use proptest::prelude::*;

fn parse(text: &str) -> Result<Filter, FilterError> {
    super::parse(text, Service)
}

fn parse_extended(text: &str) -> Result<Filter, FilterError> {
    super::parse(text, Extended)
}

fn compare(property: &str, operator: Operator, literal: Literal) -> Filter {
    Filter::Compare(Comparison { property: PropertyName::new(property), operator, literal })
}

fn text(text: &str) -> Literal {
    Literal::String(Box::from(text))
}

fn is_true(property: &str) -> Filter {
    Filter::IsTrue(PropertyName::new(property))
}

#[test]
fn texts_are_read_as_the_trees_that_they_mean() {
    for (input, canonical) in [
        ("a eq 1", "a eq 1"),
        ("  a  eq\t1  ", "a eq 1"),
        ("((a eq (1)))", "a eq 1"),
        ("(a) ne 1", "a ne 1"),
        ("a eq 1 or b eq 2 and c eq 3", "a eq 1 or b eq 2 and c eq 3"),
        ("a eq 1 and b eq 2 or c eq 3", "a eq 1 and b eq 2 or c eq 3"),
        ("a eq 1 or (b eq 2 and c eq 3)", "a eq 1 or b eq 2 and c eq 3"),
        ("(a eq 1 or b eq 2) and c eq 3", "(a eq 1 or b eq 2) and c eq 3"),
        ("(a eq 1)and(b eq 2)or(c eq 3)", "a eq 1 and b eq 2 or c eq 3"),
        ("a and b and c", "a and b and c"),
        ("(a and b) and c", "(a and b) and c"),
        ("a and (b and c)", "a and (b and c)"),
        ("a or b or (c or d) or e", "a or b or (c or d) or e"),
        ("not(a eq 1)", "not (a eq 1)"),
        ("not (a eq 1)", "not (a eq 1)"),
        ("not a eq 1", "not (a eq 1)"),
        ("not a", "not a"),
        ("not a and b", "not a and b"),
        ("not (a and b)", "not (a and b)"),
        ("not not a", "not not a"),
        ("a eq 1 and not b lt 2 and c", "a eq 1 and not (b lt 2) and c"),
        ("3 lt Age", "Age gt 3"),
        ("3 le Age", "Age ge 3"),
        ("3 gt Age", "Age lt 3"),
        ("3 ge Age", "Age le 3"),
        ("3 eq Age", "Age eq 3"),
        ("3 ne Age", "Age ne 3"),
        ("IsReady and Age gt 3", "IsReady and Age gt 3"),
        ("true", "true"),
        ("false or a eq true", "false or a eq true"),
        ("eq eq 1 and and eq 2", "eq eq 1 and and eq 2"),
        ("_a1 eq 1 or Größe eq 2 or 日本 eq 3", "_a1 eq 1 or Größe eq 2 or 日本 eq 3"),
        ("a eq'x'and b eq 1", "a eq 'x' and b eq 1"),
        (
            "((PartitionKey gt 'dev_') and (PartitionKey le 'dev`')) and (RowKey ge 'a')",
            "(PartitionKey gt 'dev_' and PartitionKey le 'dev`') and RowKey ge 'a'",
        ),
    ] {
        let filter = parse(input).unwrap_or_else(|error| panic!("{input}: {error}"));
        assert_eq!(print(&filter), canonical, "{input}");
    }
}

#[test]
fn system_properties_are_recognized_by_exact_case() {
    let instant = DateTime::parse("2024-02-29T12:34:56Z").unwrap();
    for (input, property, literal) in [
        ("PartitionKey eq 'a'", PropertyName::PartitionKey, text("a")),
        ("RowKey eq 'a'", PropertyName::RowKey, text("a")),
        ("Timestamp eq datetime'2024-02-29T12:34:56Z'", PropertyName::Timestamp, Literal::DateTime(instant)),
        ("partitionkey eq 5", PropertyName::Custom(Box::from("partitionkey")), Literal::Int32(5)),
        ("TableName eq 'a'", PropertyName::Custom(Box::from("TableName")), text("a")),
    ] {
        let expected = Comparison { property, operator: Operator::Equal, literal };
        assert_eq!(parse(input), Ok(Filter::Compare(expected)));
    }
}

#[test]
fn literals_of_every_type_and_form() {
    let bytes = || Literal::Binary(Box::from([0x0A, 0xFF]));
    let id = Literal::Guid(Guid::parse("0b0c0d0e-1111-4222-8333-444455556666").unwrap());
    let instant = |text| Literal::DateTime(DateTime::parse(text).unwrap());
    for (input, literal) in [
        ("'abc'", text("abc")),
        ("''", text("")),
        ("''''", text("'")),
        ("'O''Neil'", text("O'Neil")),
        ("'a\\n\"é😀\u{1}'", text("a\\n\"é😀\u{1}")),
        ("42", Literal::Int32(42)),
        ("-7", Literal::Int32(-7)),
        ("007", Literal::Int32(7)),
        ("-2147483648", Literal::Int32(i32::MIN)),
        ("2147483647", Literal::Int32(i32::MAX)),
        ("42L", Literal::Int64(42)),
        ("-42l", Literal::Int64(-42)),
        ("-9223372036854775808L", Literal::Int64(i64::MIN)),
        ("1099511627776L", Literal::Int64(1 << 40)),
        ("1.5", Literal::Double(1.5)),
        ("-0.25", Literal::Double(-0.25)),
        ("1e10", Literal::Double(1e10)),
        ("1E+2", Literal::Double(100.0)),
        ("-1.5e-3", Literal::Double(-0.0015)),
        ("3D", Literal::Double(3.0)),
        ("3.0d", Literal::Double(3.0)),
        ("1e2D", Literal::Double(100.0)),
        ("INF", Literal::Double(f64::INFINITY)),
        ("-INF", Literal::Double(f64::NEG_INFINITY)),
        ("true", Literal::Boolean(true)),
        ("false", Literal::Boolean(false)),
        ("True", Literal::Boolean(true)),
        ("FALSE", Literal::Boolean(false)),
        ("datetime'2024-01-02T03:04:05.1234567Z'", instant("2024-01-02T03:04:05.1234567Z")),
        ("datetime'2024-01-02T03:04'", instant("2024-01-02T03:04:00Z")),
        ("datetime'2024-01-02T03:04:05+01:00'", instant("2024-01-02T02:04:05Z")),
        ("datetime' 2024-01-02 '", instant("2024-01-02T00:00:00Z")),
        ("guid'{0b0c0d0e-1111-4222-8333-444455556666}'", id.clone()),
        ("guid' 0b0c0d0e111142228333444455556666'", id.clone()),
        ("guid'0b0c0d0e-1111-4222-8333-444455556666'", id.clone()),
        ("guid'0B0C0D0E-1111-4222-8333-444455556666'", id),
        ("X'0aFf'", bytes()),
        ("x'0aFf'", bytes()),
        ("binary'0AFF'", bytes()),
        ("X''", Literal::Binary(Box::from([]))),
    ] {
        let expected = compare("p", Operator::Equal, literal);
        assert_eq!(parse(&format!("p eq {input}")), Ok(expected.clone()), "{input}");
        assert_eq!(parse(&format!("{input} eq p")), Ok(expected.clone()), "{input}");
        assert_eq!(parse(&print(&expected)), Ok(expected), "{input}");
    }
    let not_a_number = parse("p eq NaN").unwrap();
    assert!(matches!(&not_a_number, Filter::Compare(Comparison { literal: Literal::Double(v), .. }) if v.is_nan()));
    assert_eq!(print(&not_a_number), "p eq NaN");
}

#[test]
fn a_blank_filter_is_none() {
    for blank in ["", " ", "\t  "] {
        assert_eq!(super::parse_optional(blank, Service), Ok(None));
    }
    assert_eq!(super::parse_optional(" a ", Service), Ok(Some(is_true("a"))));
    assert!(parse("").is_err());
    assert!(super::parse_optional("a b", Service).is_err());
    let call = "startswith(a,'b')";
    assert_eq!(super::parse_optional(call, Extended), parse_extended(call).map(Some));
    assert!(super::parse_optional(call, Service).is_err());
}

/// Every error of specification 04 §7 that depends only on the filter, with its exact message.
#[test]
fn errors_are_those_of_the_service() {
    const GENERIC: &str = "One of the request inputs is not valid.";
    for (input, message) in [
        ("aaa bbb ccc", "Syntax error at position 7 in 'aaa bbb ccc'."),
        ("property1 eq 1'invalid'", "Syntax error at position 23 in 'property1 eq 1'invalid''."),
        ("a EQ 1", "Syntax error at position 4 in 'a EQ 1'."),
        ("a eq 1 AND b eq 2", "Syntax error at position 10 in 'a eq 1 AND b eq 2'."),
        ("a = 1", "Syntax error at position 3 in 'a = 1'."),
        ("a eq 1)", "Syntax error at position 7 in 'a eq 1)'."),
        ("'é' eq a b", "Syntax error at position 10 in ''é' eq a b'."),
        ("a eq 'its", "There is an unterminated string literal at position 9 in 'a eq 'its'."),
        // The name after the string is refused before its quote is read.
        ("a eq 'it's'", "Syntax error at position 10 in 'a eq 'it's''."),
        ("a eq \"x\"", "Syntax error: character '\"' is not valid at position 5 in 'a eq \"x\"'."),
        ("x eq 5454161346626", "Unrecognized 'Edm.Int32' literal '5454161346626' at '5' in 'x eq 5454161346626'."),
        ("x eq -2147483649", "Unrecognized 'Edm.Int32' literal '-2147483649' at '5' in 'x eq -2147483649'."),
        (
            "a eq 1 and PartitionKey eq 12345",
            "A binary operator with incompatible types was detected. Found operand types 'Edm.String' and 'Edm.Int32' for operator kind 'Equal'.",
        ),
        (
            "'2024-02-29' lt Timestamp",
            "A binary operator with incompatible types was detected. Found operand types 'Edm.String' and 'Edm.DateTime' for operator kind 'LessThan'.",
        ),
        (
            "PartitionKey and (RowKey ge 'x')",
            "A binary operator with incompatible types was detected. Found operand types 'Edm.String' and 'Edm.Boolean' for operator kind 'And'.",
        ),
        (
            "a eq 1 or 5 or b",
            "A binary operator with incompatible types was detected. Found operand types 'Edm.Boolean' and 'Edm.Int32' for operator kind 'Or'.",
        ),
        (
            "Timestamp and a",
            "A binary operator with incompatible types was detected. Found operand types 'Edm.DateTime' and '<null>' for operator kind 'And'.",
        ),
        ("x eq null", GENERIC),
        ("x ne null", GENERIC),
        ("null eq x", GENERIC),
        ("null", GENERIC),
        ("not null", GENERIC),
        (
            "x lt null",
            "The operator 'LessThan' is not supported for the 'null' literal; only equality checks are supported.",
        ),
        (
            "x le null",
            "The operator 'LessThanOrEqual' is not supported for the 'null' literal; only equality checks are supported.",
        ),
        (
            "x gt null",
            "The operator 'GreaterThan' is not supported for the 'null' literal; only equality checks are supported.",
        ),
        (
            "x ge null",
            "The operator 'GreaterThanOrEqual' is not supported for the 'null' literal; only equality checks are supported.",
        ),
        ("1", "The $filter expression must evaluate to a single boolean value."),
        ("RowKey", "The $filter expression must evaluate to a single boolean value."),
    ] {
        assert_eq!(parse(input), Err(FilterError::new(message)), "{input}");
    }
}

#[test]
fn other_errors_of_syntax() {
    for (input, message) in [
        ("", "Expression expected at position 0 in ''."),
        ("a eq", "Expression expected at position 4 in 'a eq'."),
        ("a eq 1 and ", "Expression expected at position 11 in 'a eq 1 and '."),
        ("a eq 1 or or b", "Syntax error at position 14 in 'a eq 1 or or b'."),
        ("()", "Expression expected at position 1 in '()'."),
        ("a eq .5", "Expression expected at position 5 in 'a eq .5'."),
        ("/a", "Expression expected at position 0 in '/a'."),
        ("a/ 1", "An identifier was expected at position 3."),
        ("(a eq 1", "')' or operator expected at position 7 in '(a eq 1'."),
        ("(a eq 1 b", "')' or operator expected at position 8 in '(a eq 1 b'."),
        ("('é😀' eq a,b)", "')' or operator expected at position 11 in '('é😀' eq a,b)'."),
        ("f(a b)", "')' or ',' expected at position 4 in 'f(a b)'."),
        ("f(a,", "Expression expected at position 4 in 'f(a,'."),
        ("f((a,b)", "')' or operator expected at position 4 in 'f((a,b)'."),
        ("a > 1", "Syntax error: character '>' is not valid at position 2 in 'a > 1'."),
        ("'é😀' eq 5 😀", "Syntax error: character '😀' is not valid at position 11 in ''é😀' eq 5 😀'."),
        ("a eq \u{1}", "Syntax error: character '\u{1}' is not valid at position 5 in 'a eq \u{1}'."),
        ("a eq 1.", "A digit was expected at position 7 in 'a eq 1.'."),
        ("a eq 1e+", "A digit was expected at position 8 in 'a eq 1e+'."),
        ("a eq -1.x", "A digit was expected at position 8 in 'a eq -1.x'."),
        ("'", "There is an unterminated string literal at position 1 in '''."),
        ("a eq 'x''", "There is an unterminated string literal at position 9 in 'a eq 'x'''."),
        ("é eq '😀", "There is an unterminated string literal at position 8 in 'é eq '😀'."),
        ("a eq guid'x", "There is an unterminated literal at position 11 in 'a eq guid'x'."),
        // A token is read when the token before it is complete.
        ("a b 'x", "Syntax error at position 3 in 'a b 'x'."),
        ("a eq 1 'x", "There is an unterminated string literal at position 9 in 'a eq 1 'x'."),
        ("a eq datetime'x'", "Unrecognized 'Edm.DateTime' literal 'datetime'x'' at '5' in 'a eq datetime'x''."),
        (
            "a eq datetime'0001-01-01T00:00:00Z'",
            "Unrecognized 'Edm.DateTime' literal 'datetime'0001-01-01T00:00:00Z'' at '5' in 'a eq datetime'0001-01-01T00:00:00Z''.",
        ),
        ("a eq guid'x'", "Unrecognized 'Edm.Guid' literal 'guid'x'' at '5' in 'a eq guid'x''."),
        ("a eq X'abc'", "Unrecognized 'Edm.Binary' literal 'X'abc'' at '5' in 'a eq X'abc''."),
        ("a eq X'zz'", "Unrecognized 'Edm.Binary' literal 'X'zz'' at '5' in 'a eq X'zz''."),
        (
            "a eq 9223372036854775808L",
            "Unrecognized 'Edm.Int64' literal '9223372036854775808L' at '5' in 'a eq 9223372036854775808L'.",
        ),
        ("a eq 1e999", "Unrecognized 'Edm.Double' literal '1e999' at '5' in 'a eq 1e999'."),
        (
            "not 5",
            "A unary operator with an incompatible type was detected. Found operand type 'Edm.Int32' for operator kind 'Not'.",
        ),
    ] {
        let error = parse(input).unwrap_err();
        assert_eq!((error.code, error.message.as_ref()), (FilterErrorCode::InvalidInput, message), "{input}");
    }
}

#[test]
fn what_the_service_does_not_have_is_not_implemented() {
    let message = "The requested operation is not implemented on the specified resource.";
    for input in [
        "p eq q",
        "1 eq 2",
        "a eq Truth",
        "PartitionKey eq abc",
        "startswith(a,'b')",
        "endswith(a,'b')",
        "contains(a,'b') and c eq 1",
        "startswith(a,'b') eq true",
        "substringof('b', a) eq true",
        "startswith()",
        "startswith(Timestamp,5)",
        "contains(x eq null,'b')",
        "startswith(a,'b') and x eq null",
        "length(a) gt 3",
        "concat(concat(a, ', '), b) eq 'x'",
        "now()",
        "a and year(b) eq 2024",
        "a add 1 eq 2",
        "5 eq a mul 2 sub 1",
        "-a eq 1",
        "- 1 eq a",
        "a eq -b",
        "x eq not y",
        "x eq not y eq 1",
        "(a eq 1) eq true",
        "a eq 1 eq true",
        "a/b eq 1",
        "a/any() and b",
        "a eq 1.5m",
        "a eq 1.5f",
        "a eq time'PT1H'",
        "a eq datetimeoffset'2024-01-02T03:04:05Z'",
        "p eq q and x eq null",
    ] {
        let error = parse(input).unwrap_err();
        assert_eq!((error.code, error.message.as_ref()), (FilterErrorCode::NotImplemented, message), "{input}");
        assert_eq!(ServiceError::from(error), ServiceError::from(ErrorCode::NotImplemented));
    }
}

#[test]
fn an_error_of_syntax_comes_before_an_error_of_meaning() {
    for (input, message) in [
        ("x eq null and a b", "Syntax error at position 17"),
        ("p eq q (", "Expression expected at position 8"),
        ("startswith(a,'b') 'c'", "Syntax error at position 21"),
        ("(1 eq 2", "')' or operator expected at position 7"),
        ("startswith(,'b')", "Expression expected at position 11"),
        ("contains(a,'b',)", "Expression expected at position 15"),
    ] {
        let error = parse(input).unwrap_err();
        assert_eq!(error.code, FilterErrorCode::InvalidInput, "{input}");
        assert_eq!(error.message, format!("{message} in '{input}'."));
        assert_eq!(parse_extended(input), Err(error), "{input}");
    }
}

#[test]
fn without_extensions_the_first_error_of_meaning_is_reported() {
    assert_eq!(parse("x eq null and contains(a,'b')"), Err(FilterError::invalid_input()));
    assert_eq!(parse("contains(a,'b') and x eq null"), Err(FilterError::not_implemented()));
}

#[test]
fn string_functions_are_read_with_extensions() {
    for (input, canonical) in [
        ("startswith(a,'b')", "startswith(a,'b')"),
        (" startswith ( a , 'O''Neil' ) ", "startswith(a,'O''Neil')"),
        ("endswith(RowKey,'')", "endswith(RowKey,'')"),
        ("contains(PartitionKey,'é😀')", "contains(PartitionKey,'é😀')"),
        ("substringof('b',a)", "contains(a,'b')"),
        ("startswith((a),('b'))", "startswith(a,'b')"),
        ("(startswith(a,'b'))", "startswith(a,'b')"),
        ("not startswith(a,'b')", "not startswith(a,'b')"),
        ("not(startswith(a,'b'))and c eq 1", "not startswith(a,'b') and c eq 1"),
        ("a eq 1 or contains(a,'b') and endswith(a,'c')", "a eq 1 or contains(a,'b') and endswith(a,'c')"),
        ("(a or contains(a,'b')) and c", "(a or contains(a,'b')) and c"),
        ("startswith(a,'b') eq true", "startswith(a,'b')"),
        ("startswith(a,'b') eq false", "not startswith(a,'b')"),
        ("startswith(a,'b') ne true", "not startswith(a,'b')"),
        ("startswith(a,'b') ne false", "startswith(a,'b')"),
        ("true eq substringof('b',a)", "contains(a,'b')"),
        ("True ne (endswith(a,'b'))", "not endswith(a,'b')"),
        ("not startswith(a,'b') eq true and c", "not startswith(a,'b') and c"),
        ("not startswith(a,'b') eq false", "not not startswith(a,'b')"),
        // Without a parenthesis, the name of a function is a property.
        ("contains eq 1 and startswith", "contains eq 1 and startswith"),
        ("startswith(startswith,'b')", "startswith(startswith,'b')"),
    ] {
        let filter = parse_extended(input).unwrap_or_else(|error| panic!("{input}: {error}"));
        assert_eq!(print(&filter), canonical, "{input}");
        assert_eq!(parse_extended(canonical), Ok(filter), "{input}");
    }
}

#[test]
fn arguments_have_types() {
    let signature = |name: &str| {
        format!(
            "No function signature for the function with name '{name}' matches the specified arguments. \
             The function signatures considered are: {name}(Edm.String Nullable=true, Edm.String Nullable=true)."
        )
    };
    let operands = |types: &str, operator: &str| {
        format!(
            "A binary operator with incompatible types was detected. \
             Found operand types {types} for operator kind '{operator}'."
        )
    };
    for (input, message) in [
        ("startswith()", signature("startswith")),
        ("startswith(a)", signature("startswith")),
        ("contains(a,'b','c')", signature("contains")),
        ("startswith(a,5)", signature("startswith")),
        ("endswith(RowKey,X'00')", signature("endswith")),
        ("contains(Timestamp,'2024')", signature("contains")),
        ("substringof('b',Timestamp)", signature("substringof")),
        ("startswith(5,'b')", signature("startswith")),
        ("startswith(startswith(a,'b'),'c')", signature("startswith")),
        ("startswith(a eq 1,'c')", signature("startswith")),
        ("startswith(a,null)", "One of the request inputs is not valid.".to_owned()),
        ("startswith(a,'b') eq null", "One of the request inputs is not valid.".to_owned()),
        ("startswith(a,'b') eq 'true'", operands("'Edm.Boolean' and 'Edm.String'", "Equal")),
        ("1 ne startswith(a,'b')", operands("'Edm.Int32' and 'Edm.Boolean'", "NotEqual")),
        ("startswith(a,'b') and RowKey", operands("'Edm.Boolean' and 'Edm.String'", "And")),
        // The first error of meaning is reported.
        ("startswith(a,5) and now()", signature("startswith")),
    ] {
        let error = parse_extended(input).unwrap_err();
        assert_eq!((error.code, error.message.as_ref()), (FilterErrorCode::InvalidInput, message.as_str()), "{input}");
    }
}

#[test]
fn other_calls_are_not_implemented_with_extensions_either() {
    for input in [
        "startswith(a,b)",
        "startswith('a','b')",
        "startswith('b',a)",
        "substringof(a,'b')",
        "StartsWith(a,'b')",
        "length(a) gt 3",
        "startswith(tolower(a),'b')",
        "startswith(a/b,'c')",
        "a/startswith(b,'c')",
        "startswith/b('c')",
        "startswith(a,'b') eq c",
        "startswith(a,'b') eq startswith(c,'d')",
        "startswith(a,'b') gt false",
        "startswith(a,'b') eq true eq true",
        "startswith(a,'b') eq false eq true",
        "(a eq 1) eq true",
        "(startswith(a,'b') and c) eq true",
        "now() and startswith(a,5)",
    ] {
        assert_eq!(parse_extended(input), Err(FilterError::not_implemented()), "{input}");
        assert_eq!(parse(input), Err(FilterError::not_implemented()), "{input}");
    }
}

#[test]
fn long_filters_are_read_and_deep_ones_are_refused() {
    let many = vec!["PartitionKey eq 'a'"; 1400].join(" or ");
    assert!(matches!(parse(&many), Ok(Filter::Or(operands)) if operands.len() == 1400));
    let too_long = format!("a eq '{}'", "x".repeat(FILTER_TEXT_BYTES_MAX));
    assert_eq!(parse(&too_long), Err(FilterError::invalid_input()));
    for (open, close) in [
        ("(", ")"),
        ("not ", ""),
        ("not(", ")"),
        ("- ", ""),
        ("f(", ")"),
        ("startswith(", ",'b')"),
        ("b or c and d eq 1 add 1 mul (", ")"),
        ("x eq not ", ""),
    ] {
        let nested = |depth: usize| format!("{}a{}", open.repeat(depth), close.repeat(depth));
        let levels = if open == "not(" { 2 } else { 1 };
        for parse in [parse, parse_extended] {
            let fits = parse(&nested(FILTER_DEPTH_MAX / levels));
            assert_ne!(fits, Err(FilterError::new("Recursion depth exceeded allowed limit.")), "{open}");
            for depth in [FILTER_DEPTH_MAX / levels + 1, FILTER_TEXT_BYTES_MAX / (open.len() + close.len()) - 1] {
                let message = "Recursion depth exceeded allowed limit.";
                assert_eq!(parse(&nested(depth)).unwrap_err().message, message, "{open} {depth}");
            }
        }
    }
}

#[test]
fn the_deepest_filter_fits_the_stack_of_a_thread() {
    let open = "PartitionKey eq 'a' or PartitionKey eq 'b' and (";
    let text = format!("{}A{}", open.repeat(FILTER_DEPTH_MAX), ")".repeat(FILTER_DEPTH_MAX));
    let filter = parse(&text).unwrap();
    assert_eq!(parse(&print(&filter)).as_ref(), Ok(&filter));
    // A call is a level of nesting.
    let call = text.replacen("(A)", "startswith(A,'b')", 1);
    assert_eq!(parse_extended(&call).map(|filter| print(&filter)), Ok(call));
    let key = EntityKey { partition: KeyText::new("b").unwrap(), row: KeyText::new("r").unwrap() };
    let record = RecordBuilder::default().finish(DateTime::MIN);
    assert_eq!(filter.clone().matches(&EntityView::from_parts(&key, &record).unwrap()), Ok(false));
    assert!(!filter.matches_table("abc") && !filter.uses_only_table_name());
    assert_eq!(model::plan::plan(Some(&filter)).ranges.len(), 2);
    assert!(!model::plan::plan_tables(Some(&filter)).is_empty());
}

fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        ".{0,8}".prop_map(|value| text(&value)),
        proptest::collection::vec(any::<u8>(), 0..8).prop_map(|value| Literal::Binary(value.into())),
        any::<bool>().prop_map(Literal::Boolean),
        (0..=DateTime::MAX.ticks()).prop_map(|ticks| Literal::DateTime(DateTime::from_ticks(ticks).unwrap())),
        any::<f64>().prop_filter("equals itself", |value| !value.is_nan()).prop_map(Literal::Double),
        any::<[u8; 16]>().prop_map(|bytes| Literal::Guid(Guid::from_bytes(bytes))),
        any::<i32>().prop_map(Literal::Int32),
        any::<i64>().prop_map(Literal::Int64),
    ]
}

fn name() -> impl Strategy<Value = String> {
    const TAKEN: [&str; 4] = ["not", "null", "NaN", "INF"];
    prop_oneof![
        "[a-zA-Z_é日][a-zA-Z0-9_é日\u{301}]{0,5}",
        proptest::sample::select(vec!["PartitionKey", "RowKey", "Timestamp", "and", "or", "eq", "x", "datetime"])
            .prop_map(str::to_owned),
    ]
    .prop_filter("has another meaning", |name| !TAKEN.contains(&name.as_str()) && super::lex::boolean(name).is_none())
}

fn filter() -> impl Strategy<Value = Filter> {
    let operator = proptest::sample::select(vec![
        Operator::Equal,
        Operator::NotEqual,
        Operator::LessThan,
        Operator::LessThanOrEqual,
        Operator::GreaterThan,
        Operator::GreaterThanOrEqual,
    ]);
    let leaf = prop_oneof![
        8 => (name(), operator, literal())
            .prop_filter("has the type of the property", |(name, _, literal)| {
                PropertyName::new(name).declared_type().is_none_or(|declared| declared == literal.edm_type())
            })
            .prop_map(|(name, operator, literal)| compare(&name, operator, literal)),
        3 => (name(), proptest::sample::select(vec![
            StringFunction::StartsWith,
            StringFunction::EndsWith,
            StringFunction::Contains,
        ]), ".{0,8}")
            .prop_map(|(name, function, text)| (PropertyName::new(&name), function, text))
            .prop_filter("can be a string", |(property, ..)| *property != PropertyName::Timestamp)
            .prop_map(|(property, function, text)| Filter::Call(Call { function, property, text: text.into() })),
        1 => name().prop_map(|name| PropertyName::new(&name))
            .prop_filter("can be Boolean", |name| matches!(name, PropertyName::Custom(_))).prop_map(Filter::IsTrue),
        1 => any::<bool>().prop_map(Filter::Constant),
    ];
    leaf.prop_recursive(6, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 2..5).prop_map(Filter::And),
            proptest::collection::vec(inner.clone(), 2..5).prop_map(Filter::Or),
            inner.prop_map(|operand| Filter::Not(Box::new(operand))),
        ]
    })
}

/// Expressions of tokens that often make sense.
fn tokens() -> impl Strategy<Value = String> {
    let word = proptest::sample::select(vec![
        "a",
        "PartitionKey",
        "eq",
        "lt",
        "and",
        "or",
        "not",
        "not ",
        "(",
        ")",
        ",",
        "/",
        "-",
        "1",
        "2L",
        "1.5",
        "'x'",
        "'",
        "null",
        "true",
        "X'00'",
        "guid'",
        "é",
        ".",
        " ",
        "NaN",
        "add",
        "in",
        "f(",
        "startswith(",
        "contains(a,'x')",
        "substringof(",
    ]);
    (proptest::collection::vec(word, 0..20), prop_oneof![Just(" "), Just("")])
        .prop_map(|(words, separator)| words.join(separator))
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_to_the_same_tree(filter in filter()) {
        let text = print(&filter);
        prop_assert_eq!(parse_extended(&text), Ok(filter), "{}", text);
    }

    #[test]
    fn any_text_is_read_without_panic(text in "\\PC{0,40}") {
        let _ = parse_extended(&text);
    }

    #[test]
    fn any_tokens_are_read_without_panic_and_what_they_mean_is_printed(text in tokens()) {
        if let Ok(filter) = parse_extended(&text) {
            let text = print(&filter);
            let again = parse_extended(&text).map(|filter| print(&filter));
            prop_assert_eq!(again, Ok(text));
        }
    }

    /// Extensions only replace errors: a filter of the service means the same, and a syntax error stays the same unless
    /// the operator `in` causes it.
    #[test]
    fn extensions_change_only_what_is_not_implemented(text in tokens()) {
        match parse(&text) {
            Ok(filter) => prop_assert_eq!(parse_extended(&text).map(|filter| print(&filter)), Ok(print(&filter))),
            Err(error) if error.code == FilterErrorCode::InvalidInput && !text.contains("in") => {
                prop_assert_eq!(parse_extended(&text), Err(error));
            }
            Err(_) => {}
        }
    }
}

#[test]
fn a_list_is_an_alternative_of_comparisons() {
    for (input, same) in [
        ("RowKey in ('1','2')", "(RowKey eq '1' or RowKey eq '2')"),
        ("RowKey in('1')", "RowKey eq '1'"),
        ("a in ( 1 , 2L , 'x' )", "(a eq 1 or a eq 2L or a eq 'x')"),
        ("not a in (1,2)", "not (a eq 1 or a eq 2)"),
        ("a in (1,-2) and b in (true) or c eq 3", "(a eq 1 or a eq -2) and b eq true or c eq 3"),
        ("a eq 1 or a in (2,3) or a eq 4", "a eq 1 or (a eq 2 or a eq 3) or a eq 4"),
        ("(a in (2,3))", "(a eq 2 or a eq 3)"),
        ("Timestamp in (datetime'2024-01-02T03:04:05Z')", "Timestamp eq datetime'2024-01-02T03:04:05Z'"),
        ("in in (guid'c9da6455-213d-42c9-9a79-3e9149a57833')", "in eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'"),
    ] {
        assert_eq!(parse_extended(input), parse(same), "{input}");
    }
    for (input, expected) in [
        ("a in 1", "Expression expected at position 5"),
        ("a in ()", "Expression expected at position 6"),
        ("a in (1,)", "Expression expected at position 8"),
        ("a in (b)", "Expression expected at position 6"),
        ("a in (1", "')' or ',' expected at position 7"),
        ("a in (1 2)", "')' or ',' expected at position 8"),
        ("a in (1) 2", "Syntax error at position 10"),
        ("RowKey in ('1',2)", "A binary operator with incompatible types was detected."),
        ("a in (1,null)", ErrorCode::InvalidInput.message()),
        ("1 in (1)", ErrorCode::NotImplemented.message()),
        ("a eq 1 in (2,3)", ErrorCode::NotImplemented.message()),
        ("a add 1 in (2,3)", ErrorCode::NotImplemented.message()),
    ] {
        let error = parse_extended(input).unwrap_err();
        assert!(error.message.starts_with(expected), "{input}: {error}");
    }
    // Without extensions, the service's error stays.
    for (input, expected) in [
        ("a in (1)", "Syntax error at position 4 in 'a in (1)'."),
        ("(a in (1))", "')' or operator expected at position 3 in '(a in (1))'."),
    ] {
        assert_eq!(parse(input).unwrap_err().message, expected, "{input}");
    }
}

#[test]
fn a_reason_says_what_is_wrong_and_where() {
    for (input, expected) in [
        ("Name eq j", "filter-unsupported: The word at position 8 is read as a property"),
        ("Name eq NULL", "filter-unsupported: 'null' at position 8 is read as a property"),
        ("1 eq 1", "filter-unsupported: Two literals are compared; one side must be a property (position 5)"),
        ("a == 1", "filter-syntax: '=' at position 2 is not an operator: write eq."),
        ("a Eq 1", "filter-syntax: Operators are written in lower case: write eq at position 2."),
        ("a eq 1 OR b eq 2", "filter-syntax: Operators are written in lower case: write or at position 7."),
        ("Not (a eq 1)", "filter-unsupported: Operators are written in lower case: write not at position 0."),
        ("a eq 1 && b eq 2", "filter-syntax: The character '&' at position 7 cannot stand outside a string. Write and"),
        ("a != 1", "filter-syntax: The character '!' at position 2 cannot stand outside a string. Write ne"),
        ("a eq \"x\"", "filter-syntax: The character '\"' at position 5 cannot stand outside a string. Strings are"),
        ("é eq 'O'Brien'", "filter-syntax: A string ends directly before position 8. An apostrophe"),
        ("a eq 'x", "filter-syntax: The string that begins at position 5 has no closing apostrophe."),
        ("a eq 2020-01-01", "filter-syntax: A number ends directly before position 9."),
        ("my-name eq 1", "filter-syntax: A name ends directly before position 2."),
        ("a eq duration'P1D'", "filter-syntax: A name ends directly before position 13."),
        ("a like 'x%'", "filter-syntax: The service has no operator like (position 2)."),
        ("(a eq 1", "filter-syntax: The filter ends at position 7, where ')' is expected."),
        ("a eq", "filter-syntax: The filter ends at position 4, where a property or a literal is expected."),
        ("a eq 1)", "filter-syntax: The parenthesis at position 6 closes none."),
        ("a eq 5000000000", "filter-literal: The literal at position 5 is no Edm.Int32. Write a number"),
        ("a eq guid'x'", "filter-literal: The literal at position 5 is no Edm.Guid. Write guid'"),
        ("a eq 1.5m", "filter-literal: The literal has a type that no property has"),
        ("PartitionKey eq 5", "filter-types: The property has the type Edm.String, so the literal is written 'text';"),
        ("a eq null", "filter-types: Entities have no null values, so null cannot be used (position 5)."),
        ("a eq 1 and 5", "filter-types: A condition, such as a comparison of a property with a literal, is expected"),
        ("'x'", "filter-types: A condition"),
        (
            "startswith(a,'x')",
            "filter-unsupported: The service has no function startswith (position 0). To find a prefix",
        ),
        ("ToLower(a) eq 'x'", "filter-unsupported: The service has no function tolower (position 0)."),
        ("a in (1)", "extensions-off: The service has no operator in (position 2). Join"),
        ("(a in (1))", "extensions-off: The service has no operator in (position 3). Join"),
        ("a IN (1)", "filter-syntax: Operators are written in lower case: write in at position 2."),
        ("a add 1 eq 2", "filter-unsupported: The service has no arithmetic"),
        ("a/b eq 2", "filter-unsupported: A path (with '/') is used, and properties have no parts (position 0)."),
    ] {
        let reason = ServiceError::from(parse(input).unwrap_err()).reason().unwrap().line(true);
        assert!(reason.starts_with(expected), "{input}: {reason}");
    }
    let deep = format!("{}a eq 1{}", "(".repeat(257), ")".repeat(257));
    let long = format!("a eq '{}'", "x".repeat(FILTER_TEXT_BYTES_MAX));
    for (input, expected) in
        [(&deep, "than the limit, 256 (position 256)"), (&long, "The filter has 32775 bytes; the limit is")]
    {
        let reason = ServiceError::from(parse(input).unwrap_err()).reason().unwrap().line(true);
        assert!(reason.starts_with("filter-too-large: ") && reason.contains(expected), "{reason}");
    }
}

#[test]
fn a_reason_quotes_words_of_the_filter_only_as_the_value() {
    for input in [
        "a eq secret",
        "a eq 'x'secret'",
        "secret(1)",
        "a eq guid'secret'",
        "a secret 1",
        "'secret'",
        "a eq \"secret\"",
    ] {
        let error = ServiceError::from(parse(input).unwrap_err());
        let reason = error.reason().unwrap();
        assert!(!reason.line(false).contains("secret") && reason.line(true).contains("secret"), "{input}: {reason}");
    }
}
