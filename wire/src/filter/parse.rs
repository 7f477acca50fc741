//! The grammar of filter expressions (specification 04 §2), and the types of operands and arguments (04 §7).
//!
//! Operands and pending operators are kept on two heap-allocated stacks, so nesting uses no thread stack.
//! The first type error is kept until the whole expression has been parsed, and reported if the expression is
//! well-formed.
//!
//! This module must not depend on characters: it operates on tokens.

use super::error::FilterError;
use super::hint;
use super::lex::{INFINITY, Lexer, LiteralKind, NOT_A_NUMBER, Token, TokenKind, boolean, quoted, string};
use super::syntax::{SyntaxError, SyntaxErrorKind};
use crate::reason::{Reason, ReasonKind};
use model::filter::{Call, Comparison, Literal, Operator, PropertyName, StringFunction};
use model::limits::FILTER_DEPTH_MAX;
use model::{DateTime, EdmType, Filter, Guid};

/// The language of filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    /// The language of the service.
    Service,
    /// The language of the service with string functions and the operator `in`.
    Extended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BinaryOperator {
    Or,
    And,
    Comparison(Operator),
    /// An arithmetic operator, which OData has but this service does not support.
    Additive,
    Multiplicative,
}

/// A function of the extended grammar.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: &'static str,
    kind: StringFunction,
    /// True if the literal is the first argument and the property the second.
    literal_first: bool,
}

const FUNCTIONS: [Function; 4] = [
    Function { name: "startswith", kind: StringFunction::StartsWith, literal_first: false },
    Function { name: "endswith", kind: StringFunction::EndsWith, literal_first: false },
    Function { name: "contains", kind: StringFunction::Contains, literal_first: false },
    // The form of OData 3.
    Function { name: "substringof", kind: StringFunction::Contains, literal_first: true },
];

/// An operator, parenthesis or call that waits for its operands or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Binary(BinaryOperator),
    Not,
    Minus,
    Parenthesis,
    Call {
        /// `None` for a function that is not supported.
        function: Option<&'static Function>,
        /// The index of the first argument on the stack of operands.
        first_argument: usize,
    },
}

/// The precedence of an operator: a greater number binds more tightly.
type Precedence = u8;
/// The precedence of an open parenthesis. Only the closing parenthesis removes it from the stack.
const OPEN: Precedence = 0;
/// Lower than the precedence of every operator.
const LOOSEST: Precedence = 1;
const COMPARISON: Precedence = 4;
/// The operator of the extended grammar that compares a property with a list (OData 4.01).
const IN: &str = "in";

impl Pending {
    /// UNVERIFIED: `not` binds less tightly than a comparison, so `not a eq 1` means `not (a eq 1)` (04 §2). In OData
    /// itself, `not` binds more tightly.
    fn precedence(self) -> Precedence {
        match self {
            Self::Parenthesis | Self::Call { .. } => OPEN,
            Self::Binary(BinaryOperator::Or) => LOOSEST,
            Self::Binary(BinaryOperator::And) => 2,
            Self::Not => 3,
            Self::Binary(BinaryOperator::Comparison(_)) => COMPARISON,
            Self::Binary(BinaryOperator::Additive) => 5,
            Self::Binary(BinaryOperator::Multiplicative) => 6,
            Self::Minus => 7,
        }
    }

    /// Returns true if the item counts as one level of nesting.
    fn nests(self) -> bool {
        !matches!(self, Self::Binary(_))
    }
}

impl BinaryOperator {
    fn from_token(token: Token<'_>) -> Option<Self> {
        if token.kind != TokenKind::Identifier {
            return None;
        }
        Some(match token.text {
            "or" => Self::Or,
            "and" => Self::And,
            "eq" => Self::Comparison(Operator::Equal),
            "ne" => Self::Comparison(Operator::NotEqual),
            "lt" => Self::Comparison(Operator::LessThan),
            "le" => Self::Comparison(Operator::LessThanOrEqual),
            "gt" => Self::Comparison(Operator::GreaterThan),
            "ge" => Self::Comparison(Operator::GreaterThanOrEqual),
            "add" | "sub" => Self::Additive,
            "mul" | "div" | "mod" => Self::Multiplicative,
            _ => return None,
        })
    }
}

#[derive(Debug)]
enum Operand {
    Condition(Filter),
    /// A condition that, unlike others, can be compared with `true` and `false`.
    Call(Call),
    Property(PropertyName),
    Literal(Literal),
    Null,
    /// A rejected expression. No further error is reported for it.
    Refused,
}

impl Operand {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Condition(_) | Self::Call(_) => EdmType::Boolean.name(),
            Self::Property(property) => property.declared_type().map_or("<null>", EdmType::name),
            Self::Literal(literal) => literal.edm_type().name(),
            Self::Null | Self::Refused => "<null>",
        }
    }

    /// Converts the operand to a condition, or returns the operand unchanged. UNVERIFIED: the literal `true` is a
    /// condition that is always true, and `false` one that is never true (04 §2).
    fn into_condition(self) -> Result<Filter, Self> {
        match self {
            Self::Condition(filter) => Ok(filter),
            Self::Call(call) => Ok(Filter::Call(call)),
            Self::Property(property @ PropertyName::Custom(_)) => Ok(Filter::IsTrue(property)),
            Self::Literal(Literal::Boolean(value)) => Ok(Filter::Constant(value)),
            other => Err(other),
        }
    }

    fn can_be_string(&self) -> bool {
        match self {
            Self::Property(property) => property.declared_type().is_none_or(|declared| declared == EdmType::String),
            Self::Literal(literal) => literal.edm_type() == EdmType::String,
            _ => false,
        }
    }
}

struct PlacedOperand {
    operand: Operand,
    /// The operator that produced the operand, unless parentheses enclose it.
    made_by: Option<BinaryOperator>,
    /// The start of the operand's last word, in bytes.
    start: usize,
}

pub(super) struct Parser<'t> {
    grammar: Grammar,
    lexer: Lexer<'t>,
    token: Token<'t>,
    operands: Vec<PlacedOperand>,
    pending: Vec<Pending>,
    depth: usize,
    refusal: Option<FilterError>,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str, grammar: Grammar) -> Result<Self, FilterError> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        Ok(Self { grammar, lexer, token, operands: Vec::new(), pending: Vec::new(), depth: 0, refusal: None })
    }

    pub(super) fn filter(mut self) -> Result<Filter, FilterError> {
        self.operand()?;
        while self.operator()? {
            self.operand()?;
        }
        let PlacedOperand { operand, start, .. } = self.pop();
        let reason = |detail| place(self.lexer.text(), start).because(ReasonKind::FilterTypes, detail);
        match (self.refusal, operand.into_condition()) {
            (Some(refusal), _) => Err(refusal),
            (None, Ok(filter)) => Ok(filter),
            (None, Err(Operand::Null | Operand::Refused)) => Err(FilterError::invalid_input().because(reason(NULL))),
            (None, Err(_)) => Err(not_a_condition().because(reason(NO_CONDITION))),
        }
    }

    /// Returns the error for the current token (04 §7).
    fn syntax_error(&self, kind: SyntaxErrorKind) -> FilterError {
        SyntaxError::new(kind, self.lexer.text(), self.token.start, self.token.end()).into()
    }

    /// Returns a reason for the refusal of an operand.
    fn reason(&self, kind: ReasonKind, start: usize, detail: &str) -> Reason {
        place(self.lexer.text(), start).because(kind, detail)
    }

    /// Advances to the next token and returns the current one.
    fn take(&mut self) -> Result<Token<'t>, FilterError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn refuse(&mut self, error: FilterError) -> Operand {
        self.refusal.get_or_insert(error);
        Operand::Refused
    }

    /// The last operand always exists, because operators and operands alternate.
    fn pop(&mut self) -> PlacedOperand {
        self.operands.pop().unwrap_or(PlacedOperand { operand: Operand::Refused, made_by: None, start: 0 })
    }

    fn nest(&mut self, pending: Pending) -> Result<(), FilterError> {
        if self.depth == FILTER_DEPTH_MAX {
            let detail =
                format!("The nesting of parentheses, not and calls is deeper than the limit, {FILTER_DEPTH_MAX}");
            return Err(too_deep().because(self.reason(ReasonKind::FilterTooLarge, self.token.start, &detail)));
        }
        self.depth += 1;
        self.pending.push(pending);
        self.take().map(|_| ())
    }

    fn close(&mut self) -> Option<Pending> {
        let pending = self.pending.pop()?;
        self.depth -= usize::from(pending.nests());
        Some(pending)
    }

    /// Parses an operand and everything that may precede it.
    fn operand(&mut self) -> Result<(), FilterError> {
        loop {
            let start = self.token.start;
            let operand = match self.token.kind {
                TokenKind::OpenParenthesis => {
                    self.nest(Pending::Parenthesis)?;
                    continue;
                }
                TokenKind::Minus => {
                    self.nest(Pending::Minus)?;
                    continue;
                }
                TokenKind::Identifier if self.token.text == "not" => {
                    self.nest(Pending::Not)?;
                    continue;
                }
                TokenKind::Identifier => match self.name()? {
                    Some(operand) => operand,
                    None => continue,
                },
                TokenKind::Literal(kind) => {
                    let operand = self.literal(kind)?;
                    self.take()?;
                    operand
                }
                _ => return Err(self.syntax_error(SyntaxErrorKind::ExpressionExpected)),
            };
            self.operands.push(PlacedOperand { operand, made_by: None, start });
            return Ok(());
        }
    }

    /// Parses a property, or a function up to its first argument. Rejects paths and functions that OData has but the
    /// grammar does not. Returns `None` if the arguments of a function follow.
    fn name(&mut self) -> Result<Option<Operand>, FilterError> {
        let name = self.take()?;
        let mut operand = Operand::Property(PropertyName::new(name.text));
        let mut function = match self.grammar {
            Grammar::Service => None,
            Grammar::Extended => FUNCTIONS.iter().find(|function| function.name == name.text),
        };
        while self.token.kind == TokenKind::Slash {
            self.take()?;
            if self.token.kind != TokenKind::Identifier {
                return Err(self.syntax_error(SyntaxErrorKind::IdentifierExpected));
            }
            self.take()?;
            let reason = self.reason(ReasonKind::FilterUnsupported, name.start, NO_PATHS);
            operand = self.refuse(FilterError::not_implemented().because(reason));
            function = None;
        }
        if self.token.kind != TokenKind::OpenParenthesis {
            return Ok(Some(operand));
        }
        if function.is_none() {
            let place = place(self.lexer.text(), name.start);
            let detail = hint::function(name.text, place.position, self.grammar == Grammar::Extended);
            let reason = ReasonKind::FilterUnsupported.because(detail).quoting(place.rest);
            self.refuse(FilterError::not_implemented().because(reason));
        }
        self.nest(Pending::Call { function, first_argument: self.operands.len() })?;
        if self.token.kind != TokenKind::CloseParenthesis {
            return Ok(None);
        }
        self.close();
        self.take()?;
        Ok(Some(self.call(function, Vec::new(), name.start)))
    }

    /// Parses everything that may follow an operand. Returns true if another operand must follow.
    fn operator(&mut self) -> Result<bool, FilterError> {
        loop {
            let is_in = self.token.kind == TokenKind::Identifier && self.token.text == IN;
            if is_in && self.grammar == Grammar::Extended {
                self.list_comparison()?;
                continue;
            }
            if let Some(operator) = BinaryOperator::from_token(self.token) {
                let pending = Pending::Binary(operator);
                self.reduce(pending.precedence());
                self.pending.push(pending);
                self.take()?;
                return Ok(true);
            }
            self.reduce(LOOSEST);
            match (self.pending.last(), self.token.kind) {
                (None, TokenKind::End) => return Ok(false),
                (None, _) if is_in => return Err(self.in_is_an_extension(SyntaxErrorKind::UnexpectedToken)),
                (None, _) => return Err(self.syntax_error(SyntaxErrorKind::UnexpectedToken)),
                (Some(Pending::Call { .. }), TokenKind::Comma) => {
                    self.take()?;
                    return Ok(true);
                }
                (Some(_), TokenKind::CloseParenthesis) => self.close_parenthesis()?,
                (Some(Pending::Call { .. }), _) => return Err(self.syntax_error(SyntaxErrorKind::ArgumentExpected)),
                (Some(_), _) if is_in => return Err(self.in_is_an_extension(SyntaxErrorKind::OperatorExpected)),
                (Some(_), _) => return Err(self.syntax_error(SyntaxErrorKind::OperatorExpected)),
            }
        }
    }

    /// Parses `in` and the list after it, which means that the property equals one of the literals.
    fn list_comparison(&mut self) -> Result<(), FilterError> {
        self.reduce(COMPARISON);
        self.take()?;
        if self.token.kind != TokenKind::OpenParenthesis {
            return Err(self.syntax_error(SyntaxErrorKind::ExpressionExpected));
        }
        let PlacedOperand { operand, start, .. } = self.pop();
        let mut left = Some(operand);
        let mut comparisons = Vec::new();
        loop {
            self.take()?;
            let TokenKind::Literal(kind) = self.token.kind else {
                return Err(self.syntax_error(SyntaxErrorKind::ExpressionExpected));
            };
            let place = |operand, start| PlacedOperand { operand, made_by: None, start };
            let right_start = self.token.start;
            let literal = place(self.literal(kind)?, right_start);
            self.take()?;
            let operand = match &left {
                Some(Operand::Property(property)) => Operand::Property(property.clone()),
                _ => left.take().unwrap_or(Operand::Refused),
            };
            if let Operand::Condition(comparison) = self.comparison(Operator::Equal, place(operand, start), literal) {
                comparisons.push(comparison);
            } else {
                left = None;
            }
            if self.token.kind != TokenKind::Comma {
                break;
            }
        }
        if self.token.kind != TokenKind::CloseParenthesis {
            return Err(self.syntax_error(SyntaxErrorKind::ArgumentExpected));
        }
        self.take()?;
        let operand = match (comparisons.pop(), left) {
            (Some(comparison), Some(_)) if comparisons.is_empty() => Operand::Condition(comparison),
            (Some(comparison), Some(_)) => {
                comparisons.push(comparison);
                Operand::Condition(Filter::Or(comparisons))
            }
            _ => Operand::Refused,
        };
        self.operands.push(PlacedOperand { operand, made_by: None, start });
        Ok(())
    }

    /// Returns the error of the service for the operator `in`, with the reason that it is an extension.
    fn in_is_an_extension(&self, kind: SyntaxErrorKind) -> FilterError {
        let place = place(self.lexer.text(), self.token.start);
        let reason = ReasonKind::ExtensionsOff.because(hint::in_operator(place.position)).quoting(place.rest);
        self.syntax_error(kind).because(reason)
    }

    fn close_parenthesis(&mut self) -> Result<(), FilterError> {
        let closed = match self.close() {
            Some(Pending::Call { function, first_argument }) => {
                let arguments = self.operands.split_off(first_argument.min(self.operands.len()));
                let start = arguments.first().map_or(self.token.start, |argument| argument.start);
                let arguments = arguments.into_iter().map(|argument| argument.operand).collect();
                PlacedOperand { operand: self.call(function, arguments, start), made_by: None, start }
            }
            _ => self.pop(),
        };
        self.operands.push(PlacedOperand { made_by: None, ..closed });
        self.take().map(|_| ())
    }

    /// Applies the pending operators that bind at least as tightly as `loosest`, starting with the last one.
    fn reduce(&mut self, loosest: Precedence) {
        while let Some(pending) = self.pending.last().copied().filter(|pending| pending.precedence() >= loosest) {
            self.close();
            let last = self.pop();
            let reduced = match pending {
                Pending::Binary(operator) => {
                    let first = self.pop();
                    let start = first.start;
                    PlacedOperand { operand: self.binary(operator, first, last), made_by: Some(operator), start }
                }
                Pending::Not => {
                    let start = last.start;
                    PlacedOperand { operand: self.negation(last.operand, start), made_by: None, start }
                }
                Pending::Minus | Pending::Parenthesis | Pending::Call { .. } => {
                    PlacedOperand { operand: self.refuse_arithmetic(last.start), made_by: None, start: last.start }
                }
            };
            self.operands.push(reduced);
        }
    }

    fn refuse_arithmetic(&mut self, start: usize) -> Operand {
        let reason = self.reason(ReasonKind::FilterUnsupported, start, NO_ARITHMETIC);
        self.refuse(FilterError::not_implemented().because(reason))
    }

    fn binary(&mut self, operator: BinaryOperator, left: PlacedOperand, right: PlacedOperand) -> Operand {
        match operator {
            BinaryOperator::Or => self.logical("Or", Filter::Or, left.made_by == Some(operator), left, right),
            BinaryOperator::And => self.logical("And", Filter::And, left.made_by == Some(operator), left, right),
            BinaryOperator::Comparison(operator) => self.comparison(operator, left, right),
            BinaryOperator::Additive | BinaryOperator::Multiplicative => self.refuse_arithmetic(right.start),
        }
    }

    fn literal(&mut self, kind: LiteralKind) -> Result<Operand, FilterError> {
        let text = self.token.text;
        let (edm_type, literal) = match kind {
            LiteralKind::Null => return Ok(Operand::Null),
            LiteralKind::Foreign => {
                let reason = self.reason(ReasonKind::FilterLiteral, self.token.start, FOREIGN);
                return Ok(self.refuse(unsupported_literal().because(reason)));
            }
            LiteralKind::Boolean => (EdmType::Boolean, boolean(text).map(Literal::Boolean)),
            LiteralKind::String => (EdmType::String, Some(Literal::String(string(text).into()))),
            LiteralKind::Binary => (EdmType::Binary, binary(quoted(text))),
            LiteralKind::DateTime => {
                (EdmType::DateTime, DateTime::parse_value(unpadded(text)).ok().map(Literal::DateTime))
            }
            LiteralKind::Guid => (EdmType::Guid, Guid::parse(unpadded(text)).map(Literal::Guid)),
            LiteralKind::Double => (EdmType::Double, double(text)),
            LiteralKind::Int32 => (EdmType::Int32, text.parse().ok().map(Literal::Int32)),
            LiteralKind::Int64 => (EdmType::Int64, without_suffix(text).parse().ok().map(Literal::Int64)),
        };
        literal.map(Operand::Literal).ok_or_else(|| self.unrecognized(edm_type))
    }

    /// Returns the error for a literal that is out of range for its type. The position is counted as in syntax errors.
    /// The message is reported for `Edm.Int32` (04 §7), and UNVERIFIED for the other types.
    fn unrecognized(&self, edm_type: EdmType) -> FilterError {
        let text = self.lexer.text();
        let (name, literal) = (edm_type.name(), self.token.text);
        let position = model::name::utf16_units(text.get(..self.token.start).unwrap_or_default());
        let form = hint::form(edm_type);
        let detail = format!("The literal at position {position} is no {name}. Write {form}.");
        FilterError::new(format!("Unrecognized '{name}' literal '{literal}' at '{position}' in '{text}'."))
            .because(ReasonKind::FilterLiteral.because(detail).quoting(literal))
    }

    fn negation(&mut self, operand: Operand, start: usize) -> Operand {
        let reason = |detail| place(self.lexer.text(), start).because(ReasonKind::FilterTypes, detail);
        match operand.into_condition() {
            Ok(filter) => Operand::Condition(Filter::Not(Box::new(filter))),
            Err(Operand::Refused) => Operand::Refused,
            Err(Operand::Null) => self.refuse(FilterError::invalid_input().because(reason(NULL))),
            Err(other) => {
                let reason = reason(NO_CONDITION);
                self.refuse(incompatible_operand(other.type_name()).because(reason))
            }
        }
    }

    /// Creates an `And` or `Or`. If the left side is a chain of the same operator, the right side joins the chain.
    fn logical(
        &mut self,
        name: &str,
        make: fn(Vec<Filter>) -> Filter,
        continues: bool,
        left: PlacedOperand,
        right: PlacedOperand,
    ) -> Operand {
        let text = self.lexer.text();
        let types = (left.operand.type_name(), right.operand.type_name());
        let (left_start, right_start) = (left.start, right.start);
        match (left.operand.into_condition(), right.operand.into_condition()) {
            (Ok(Filter::And(mut operands) | Filter::Or(mut operands)), Ok(right)) if continues => {
                operands.push(right);
                Operand::Condition(make(operands))
            }
            (Ok(left), Ok(right)) => Operand::Condition(make(vec![left, right])),
            (Err(Operand::Refused), _) | (_, Err(Operand::Refused)) => Operand::Refused,
            (Err(Operand::Null), _) | (_, Err(Operand::Null)) => {
                let reason = place(text, left_start).because(ReasonKind::FilterTypes, NULL);
                self.refuse(FilterError::invalid_input().because(reason))
            }
            (left, _) => {
                let start = if left.is_err() { left_start } else { right_start };
                let reason = place(text, start).because(ReasonKind::FilterTypes, NO_CONDITION);
                self.refuse(incompatible_operands(types.0, types.1, name).because(reason))
            }
        }
    }

    /// Creates the call of a function of a property and a string. As in a comparison, an argument of a different type
    /// is invalid input, and a call with two properties or two literals is not implemented.
    fn call(&mut self, function: Option<&'static Function>, arguments: Vec<Operand>, start: usize) -> Operand {
        let reason = |detail| place(self.lexer.text(), start).because(ReasonKind::FilterTypes, detail);
        let unsupported = || place(self.lexer.text(), start).because(ReasonKind::FilterUnsupported, ARGUMENTS);
        let Some(function) = function else { return Operand::Refused };
        let Ok([first, second]) = <[Operand; 2]>::try_from(arguments) else {
            let reason = reason(ARGUMENTS);
            return self.refuse(incompatible_arguments(function.name).because(reason));
        };
        let are_strings = first.can_be_string() && second.can_be_string();
        let (property, literal) = if function.literal_first { (second, first) } else { (first, second) };
        match (property, literal) {
            (Operand::Property(property), Operand::Literal(Literal::String(text))) if are_strings => {
                Operand::Call(Call { function: function.kind, property, text })
            }
            (Operand::Refused, _) | (_, Operand::Refused) => Operand::Refused,
            (Operand::Null, _) | (_, Operand::Null) => self.refuse(FilterError::invalid_input().because(reason(NULL))),
            _ if are_strings => self.refuse(FilterError::not_implemented().because(unsupported())),
            _ => self.refuse(incompatible_arguments(function.name).because(reason(ARGUMENTS))),
        }
    }

    /// Creates a comparison between a property and a literal (04 §2). If the property's type is known, the literal must
    /// have the same type. UNVERIFIED (04 §3.6): the message for a literal whose type differs from a system property's
    /// type, and whether a Timestamp is rejected in this way.
    ///
    /// A call can also be compared with `true` and `false`, because some clients write every call so.
    fn comparison(&mut self, operator: Operator, left: PlacedOperand, right: PlacedOperand) -> Operand {
        let place = place(self.lexer.text(), right.start);
        let (left, right) = (left.operand, right.operand);
        let types = (left.type_name(), right.type_name());
        let name = operator_name(operator);
        let (property, operator, literal) = match (left, right) {
            (Operand::Property(property), Operand::Literal(literal)) => (property, operator, literal),
            (Operand::Literal(literal), Operand::Property(property)) => (property, operator.mirrored(), literal),
            (Operand::Call(call), Operand::Literal(Literal::Boolean(value)))
            | (Operand::Literal(Literal::Boolean(value)), Operand::Call(call)) => {
                return self.call_comparison(call, operator, value, place);
            }
            (Operand::Call(_), Operand::Literal(_)) | (Operand::Literal(_), Operand::Call(_)) => {
                let reason = place.because(ReasonKind::FilterTypes, CALL);
                return self.refuse(incompatible_operands(types.0, types.1, name).because(reason));
            }
            (Operand::Refused, _) | (_, Operand::Refused) => return Operand::Refused,
            (Operand::Null, _) | (_, Operand::Null) => {
                let reason = place.because(ReasonKind::FilterTypes, NULL);
                return self.refuse(null_comparison(operator).because(reason));
            }
            (left, right) => {
                let reason = place.because_of_operands(&left, &right);
                return self.refuse(FilterError::not_implemented().because(reason));
            }
        };
        if let Some(declared) = property.declared_type().filter(|declared| *declared != literal.edm_type()) {
            let detail = format!(
                "The property has the type {}, so the literal is written {}; the literal here is an {}",
                declared.name(),
                hint::form(declared),
                literal.edm_type().name()
            );
            let reason = place.because(ReasonKind::FilterTypes, &detail);
            return self.refuse(incompatible_operands(types.0, types.1, name).because(reason));
        }
        Operand::Condition(Filter::Compare(Comparison { property, operator, literal }))
    }

    fn call_comparison(&mut self, call: Call, operator: Operator, value: bool, place: Place<'_>) -> Operand {
        let filter = Filter::Call(call);
        match operator {
            Operator::Equal | Operator::NotEqual if value == (operator == Operator::Equal) => {
                Operand::Condition(filter)
            }
            Operator::Equal | Operator::NotEqual => Operand::Condition(Filter::Not(Box::new(filter))),
            _ => {
                let reason = place.because(ReasonKind::FilterUnsupported, CALL);
                self.refuse(FilterError::not_implemented().because(reason))
            }
        }
    }
}

const NO_CONDITION: &str = "A condition, such as a comparison of a property with a literal, is expected instead of a single \
                            literal or key";
const NULL: &str = "Entities have no null values, so null cannot be used";
const NO_PATHS: &str = "A path (with '/') is used, and properties have no parts";
const NO_ARITHMETIC: &str = "The service has no arithmetic (add, sub, mul, div, mod, or a minus in front of a property); compute \
                             the value in the client";
const FOREIGN: &str = "The literal has a type that no property has, such as Edm.Decimal, Edm.Single, Edm.Time or \
                       Edm.DateTimeOffset";
const ARGUMENTS: &str = "The arguments must be a property and a string, or for substringof a string and a property";
const CALL: &str = "The result of a function can be compared only with true or false, by eq or ne";
const TWO_LITERALS: &str = "Two literals are compared; one side must be a property";
const TWO_CONDITIONS: &str = "A comparison is between a property and a literal; conditions are joined by and, or";

/// A place in the filter, for a reason.
#[derive(Clone, Copy)]
struct Place<'t> {
    /// In UTF-16 code units.
    position: usize,
    rest: &'t str,
}

fn place(text: &str, start: usize) -> Place<'_> {
    let (before, rest) = text.split_at_checked(start).unwrap_or((text, ""));
    Place { position: model::name::utf16_units(before), rest }
}

impl Place<'_> {
    fn because(self, kind: ReasonKind, detail: &str) -> Reason {
        kind.because(format!("{detail} (position {}).", self.position)).quoting(self.rest)
    }

    /// Returns the reason for a comparison that is not one of a property with a literal. The place is its right side.
    fn because_of_operands(self, left: &Operand, right: &Operand) -> Reason {
        let kind = ReasonKind::FilterUnsupported;
        match (left, right) {
            (Operand::Property(_), Operand::Property(right)) => {
                kind.because(hint::two_properties(right.as_str(), self.position)).quoting(self.rest)
            }
            (Operand::Literal(_), Operand::Literal(_)) => self.because(kind, TWO_LITERALS),
            _ => self.because(kind, TWO_CONDITIONS),
        }
    }
}

fn without_suffix(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_ascii_alphabetic())
}

/// Returns the text between the quotes of a DateTime or a Guid. UNVERIFIED (01 §6.5): white space around it is ignored.
fn unpadded(literal: &str) -> &str {
    quoted(literal).trim_ascii()
}

fn binary(hex: &str) -> Option<Literal> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    let bytes: Option<Box<[u8]>> = pairs.iter().map(byte).collect();
    if rest.is_empty() { bytes.map(Literal::Binary) } else { None }
}

/// Parses a double. A number that is too large is an error, as in bodies (01 §6.2).
fn double(text: &str) -> Option<Literal> {
    let value = match text {
        NOT_A_NUMBER => f64::NAN,
        INFINITY => f64::INFINITY,
        _ if text.strip_prefix('-') == Some(INFINITY) => f64::NEG_INFINITY,
        _ => without_suffix(text).parse().ok().filter(|value: &f64| value.is_finite())?,
    };
    Some(Literal::Double(value))
}

/// Returns the error for a literal of a type that no property has (UNVERIFIED, 04 §2.1: 400 or 501).
fn unsupported_literal() -> FilterError {
    FilterError::not_implemented()
}

/// Returns the error for a filter that consists of only a literal or a key (reported for `1`).
fn not_a_condition() -> FilterError {
    FilterError::new("The $filter expression must evaluate to a single boolean value.")
}

/// Returns the error for excessive nesting (UNVERIFIED, as is the limit itself).
fn too_deep() -> FilterError {
    FilterError::new("Recursion depth exceeded allowed limit.")
}

fn incompatible_operands(left: &str, right: &str, operator: &str) -> FilterError {
    FilterError::new(format!(
        "A binary operator with incompatible types was detected. \
         Found operand types '{left}' and '{right}' for operator kind '{operator}'."
    ))
}

/// Returns the error for `not` applied to an operand that is not a condition (UNVERIFIED; modelled on the message for
/// binary operators).
fn incompatible_operand(operand: &str) -> FilterError {
    FilterError::new(format!(
        "A unary operator with an incompatible type was detected. \
         Found operand type '{operand}' for operator kind 'Not'."
    ))
}

/// Returns the error for a call whose arguments are not two strings. The message is that of OData libraries.
fn incompatible_arguments(function: &str) -> FilterError {
    FilterError::new(format!(
        "No function signature for the function with name '{function}' matches the specified arguments. \
         The function signatures considered are: {function}(Edm.String Nullable=true, Edm.String Nullable=true)."
    ))
}

/// Rejects a comparison with null, since entities have no null values (04 §7).
fn null_comparison(operator: Operator) -> FilterError {
    if matches!(operator, Operator::Equal | Operator::NotEqual) {
        return FilterError::invalid_input();
    }
    let name = operator_name(operator);
    FilterError::new(format!(
        "The operator '{name}' is not supported for the 'null' literal; only equality checks are supported."
    ))
}

fn operator_name(operator: Operator) -> &'static str {
    match operator {
        Operator::Equal => "Equal",
        Operator::NotEqual => "NotEqual",
        Operator::LessThan => "LessThan",
        Operator::LessThanOrEqual => "LessThanOrEqual",
        Operator::GreaterThan => "GreaterThan",
        Operator::GreaterThanOrEqual => "GreaterThanOrEqual",
    }
}
