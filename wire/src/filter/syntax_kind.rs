//! The kinds of errors of syntax in OData expressions.

/// The kind of an error of syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyntaxErrorKind {
    /// A token that cannot follow the complete expression before it.
    UnexpectedToken,
    ExpressionExpected,
    IdentifierExpected,
    /// Neither an operator nor the end of the parentheses follows an operand.
    OperatorExpected,
    /// Neither another argument nor the end of a call follows an argument.
    ArgumentExpected,
    DigitExpected,
    InvalidCharacter(char),
    UnterminatedString,
    /// A literal with a prefix, such as `guid'…`.
    UnterminatedLiteral,
}
