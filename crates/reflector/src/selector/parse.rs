//! The grammar of label selectors (`k8s.io/apimachinery/pkg/labels`).
//!
//! It takes what a server takes, with its oddities (but for one: a server's lexer takes a NUL byte for the end, and here it
//! is an error): a list of values may have gaps, which are empty values, but
//! `(a,,)` and `(,,)` are refused; `in` and `notin` are words like others where no operator is expected.

use super::{LabelSelectorError, Operator, Requirement};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    /// One of `= == != ! > < ( ) ,`.
    Sign(&'a str),
    End,
}

/// The rest of the text, beginning at `at`.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

/// The requirements of a text, in their order.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, LabelSelectorError> {
    let mut parser = Parser { text, at: 0 };
    let mut requirements = Vec::new();
    if parser.peek() == Token::End {
        return Ok(requirements);
    }
    loop {
        requirements.push(parser.requirement()?);
        match parser.take() {
            (_, Token::End) => return Ok(requirements),
            (_, Token::Sign(",")) => {}
            (at, found) => return Err(syntax(at, "`,` or the end", found)),
        }
    }
}

impl<'a> Parser<'a> {
    /// The next token, and where it begins.
    fn take(&mut self) -> (usize, Token<'a>) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let text = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let at = self.at + (rest.len() - text.len());
        let end = text.find(|c: char| is_sign(c) || matches!(c, ' ' | '\t' | '\r' | '\n'));
        let token = match end.unwrap_or(text.len()) {
            0 if text.is_empty() => Token::End,
            0 => {
                let two = text.get(..2).filter(|two| matches!(*two, "==" | "!="));
                Token::Sign(two.or(text.get(..1)).unwrap_or_default())
            }
            end => Token::Word(text.get(..end).unwrap_or_default()),
        };
        self.at = at + token.text().len();
        (at, token)
    }

    fn peek(&mut self) -> Token<'a> {
        let at = self.at;
        let (_, token) = self.take();
        self.at = at;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, LabelSelectorError> {
        let (start, first) = self.take();
        let (at, name) = if first == Token::Sign("!") { self.take() } else { (start, first) };
        let Token::Word(key) = name else {
            let expected = if at == start { "the name of a label or `!`" } else { "the name of a label" };
            return Err(syntax(at, expected, name));
        };
        let (operator, values) = if at != start {
            (Operator::DoesNotExist, Vec::new())
        } else if matches!(self.peek(), Token::End | Token::Sign(",")) {
            (Operator::Exists, Vec::new())
        } else {
            self.comparison()?
        };
        Requirement::new(key, operator, values)
            .map_err(|source| LabelSelectorError::Requirement { at: start, source })
    }

    fn comparison(&mut self) -> Result<(Operator, Vec<&'a str>), LabelSelectorError> {
        let (at, token) = self.take();
        Ok(match token {
            Token::Sign("=" | "==") => (Operator::In, vec![self.value()?]),
            Token::Sign("!=") => (Operator::NotIn, vec![self.value()?]),
            Token::Sign(">") => (Operator::GreaterThan, vec![self.value()?]),
            Token::Sign("<") => (Operator::LessThan, vec![self.value()?]),
            Token::Word("in") => (Operator::In, self.values()?),
            Token::Word("notin") => (Operator::NotIn, self.values()?),
            found => return Err(syntax(at, "`=`, `==`, `!=`, `in`, `notin`, `>` or `<`", found)),
        })
    }

    /// One value; it may be left out.
    fn value(&mut self) -> Result<&'a str, LabelSelectorError> {
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return Ok("");
        }
        match self.take() {
            (_, Token::Word(value)) => Ok(value),
            (at, found) => Err(syntax(at, "a value", found)),
        }
    }

    /// Values in parentheses.
    fn values(&mut self) -> Result<Vec<&'a str>, LabelSelectorError> {
        let mut values = Vec::new();
        match self.take() {
            (_, Token::Sign("(")) => {}
            (at, found) => return Err(syntax(at, "`(`", found)),
        }
        // A comma first, or the end at once: an empty value.
        if matches!(self.peek(), Token::Sign("," | ")")) {
            values.push("");
        }
        while self.peek() != Token::Sign(")") {
            match self.take() {
                (_, Token::Word(value)) => {
                    values.push(value);
                    if !matches!(self.peek(), Token::Sign("," | ")")) {
                        let (at, found) = self.take();
                        return Err(syntax(at, "`,` or `)`", found));
                    }
                }
                (_, Token::Sign(",")) => self.gap(&mut values)?,
                (at, found) => return Err(syntax(at, "a value, `,` or `)`", found)),
            }
        }
        self.take();
        Ok(values)
    }

    /// After a comma: an empty value, if another comma or the end follows. Two commas are one gap, and the end may not
    /// follow them.
    fn gap(&mut self, values: &mut Vec<&'a str>) -> Result<(), LabelSelectorError> {
        match self.peek() {
            Token::Sign(")") => values.push(""),
            Token::Sign(",") => {
                self.take();
                values.push("");
                if self.peek() == Token::Sign(")") {
                    let (at, found) = self.take();
                    return Err(syntax(at, "a value or `,`", found));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Sign(text) => text,
            Self::End => "",
        }
    }
}

fn is_sign(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn syntax(at: usize, expected: &'static str, found: Token<'_>) -> LabelSelectorError {
    let found = match found {
        Token::End => "the end".to_owned(),
        other => format!("`{}`", other.text()),
    };
    LabelSelectorError::Syntax { at, expected, found }
}
