//! Label selectors: the grammar and the error texts of `k8s.io/apimachinery/pkg/labels`.

use super::names;

/// A parsed label selector; empty matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted and without repetitions.
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Greater,
    Less,
}

impl LabelSelector {
    /// Parses a selector; the error is the parser's own text, which the server passes on as it is.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Parser { tokens: scan(text), at: 0 }.parse().map(Self)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether labels, looked up by `get`, satisfy all requirements.
    pub(super) fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|r| r.matches(get(&r.key)))
    }
}

impl Requirement {
    fn new(key: String, operator: Operator, mut values: Vec<String>) -> Result<Self, String> {
        values.sort();
        values.dedup();
        let mut errors = Vec::new();
        if matches!(operator, Operator::Greater | Operator::Less) {
            for (i, value) in values.iter().enumerate().filter(|(_, v)| v.parse::<i64>().is_err()) {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(format!("values[{i}][{key}]: Invalid value: \"{value}\": {why}"));
            }
        }
        for (i, value) in values.iter().enumerate() {
            let broken = broken_value_rules(value);
            if !broken.is_empty() {
                errors.push(format!("values[{i}][{key}]: Invalid value: \"{value}\": {}", broken.join("; ")));
            }
        }
        match errors.as_slice() {
            [] => Ok(Self { key, operator, values }),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let listed = |v: &str| self.values.iter().any(|candidate| candidate == v);
        let compare = |holds: fn(i64, i64) -> bool| {
            let label = value.and_then(|v| v.parse().ok());
            let bound = self.values.first().and_then(|v| v.parse().ok());
            matches!((label, bound), (Some(l), Some(b)) if holds(l, b))
        };
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Greater => compare(|l, b| l > b),
            Operator::Less => compare(|l, b| l < b),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    ClosedPar,
    Comma,
    DoesNotExist,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    OpenPar,
    End,
    Error,
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn scan(text: &str) -> Vec<(Token, String)> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else {
            break;
        };
        let word = if is_special(first) { special_symbol(rest) } else { identifier(rest) };
        let Some(token) = word.0 else {
            tokens.push((Token::Error, format!("error expected: keyword found '{}'", word.1)));
            break;
        };
        tokens.push((token, word.1.to_owned()));
        rest = &rest[word.1.len()..];
    }
    tokens.push((Token::End, String::new()));
    tokens
}

fn identifier(rest: &str) -> (Option<Token>, &str) {
    let end =
        rest.find(|c: char| is_special(c) || matches!(c, ' ' | '\t' | '\r' | '\n')).unwrap_or(rest.len());
    let word = &rest[..end];
    let token = match word {
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => Token::Identifier,
    };
    (Some(token), word)
}

/// The longest operator at the start of `rest`, in Go's greedy way: it stops at the first character that makes the
/// text no operator any more.
fn special_symbol(rest: &str) -> (Option<Token>, &str) {
    let mut best = None;
    let mut end = 0;
    for (at, c) in rest.char_indices() {
        if !is_special(c) {
            break;
        }
        let word = &rest[..at + c.len_utf8()];
        let token = match word {
            ")" => Some(Token::ClosedPar),
            "," => Some(Token::Comma),
            "!" => Some(Token::DoesNotExist),
            "==" => Some(Token::DoubleEquals),
            "=" => Some(Token::Equals),
            ">" => Some(Token::Greater),
            "<" => Some(Token::Less),
            "!=" => Some(Token::NotEquals),
            "(" => Some(Token::OpenPar),
            _ => None,
        };
        if token.is_none() && best.is_some() {
            break;
        }
        best = token;
        end = word.len();
    }
    (best, &rest[..end])
}

struct Parser {
    tokens: Vec<(Token, String)>,
    at: usize,
}

impl Parser {
    /// The next token; as a value, `in` and `notin` are plain words.
    fn peek(&self, as_value: bool) -> (Token, String) {
        let (token, literal) = self.tokens.get(self.at).cloned().unwrap_or((Token::End, String::new()));
        match token {
            Token::In | Token::NotIn if as_value => (Token::Identifier, literal),
            _ => (token, literal),
        }
    }

    fn next(&mut self, as_value: bool) -> (Token, String) {
        let token = self.peek(as_value);
        self.at += 1;
        token
    }

    fn parse(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            let (token, literal) = self.peek(true);
            match token {
                Token::Identifier | Token::DoesNotExist => {}
                Token::End => return Ok(requirements),
                _ => {
                    return Err(format!("found '{literal}', expected: !, identifier, or 'end of string'"));
                }
            }
            let requirement = self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
            requirements.push(requirement);
            let (token, literal) = self.next(true);
            match token {
                Token::End => return Ok(requirements),
                Token::Comma => {
                    let (token, literal) = self.peek(true);
                    if !matches!(token, Token::Identifier | Token::DoesNotExist) {
                        return Err(format!("found '{literal}', expected: identifier after ','"));
                    }
                }
                _ => {
                    return Err(format!("found '{literal}', expected: ',' or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut token, mut key) = self.next(true);
        let negated = token == Token::DoesNotExist;
        if negated {
            (token, key) = self.next(true);
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        check_key(&key)?;
        if matches!(self.peek(true).0, Token::End | Token::Comma) || negated {
            let operator = if negated { Operator::DoesNotExist } else { Operator::Exists };
            return Requirement::new(key, operator, Vec::new());
        }
        let (token, literal) = self.next(false);
        let operator = match token {
            Token::In | Token::Equals | Token::DoubleEquals => Operator::In,
            Token::NotIn | Token::NotEquals => Operator::NotIn,
            Token::Greater => Operator::Greater,
            Token::Less => Operator::Less,
            _ => {
                return Err(format!("found '{literal}', expected: in, notin, =, ==, !=, gt, lt"));
            }
        };
        let values = match token {
            Token::In | Token::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        Requirement::new(key, operator, values)
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek(true).0, Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next(true) {
            (Token::Identifier, literal) => Ok(literal),
            (_, literal) => Err(format!("found '{literal}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        let (token, literal) = self.next(true);
        if token != Token::OpenPar {
            return Err(format!("found '{literal}' expected: '('"));
        }
        match self.peek(true) {
            (Token::Identifier | Token::Comma, literal) => {
                let values = self.value_list()?;
                match self.next(true).0 {
                    Token::ClosedPar => Ok(values),
                    _ => Err(format!("found '{literal}', expected: ')'")),
                }
            }
            (Token::ClosedPar, _) => {
                self.at += 1;
                Ok(vec![String::new()])
            }
            (_, literal) => Err(format!("found '{literal}', expected: ',', ')' or identifier")),
        }
    }

    /// Values up to the closing parenthesis; `(,a,,b,)` has empty values at the gaps.
    fn value_list(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            match self.next(true) {
                (Token::Identifier, literal) => {
                    values.push(literal);
                    match self.peek(true) {
                        (Token::Comma, _) => {}
                        (Token::ClosedPar, _) => return Ok(values),
                        (_, literal) => {
                            return Err(format!("found '{literal}', expected: ',' or ')'"));
                        }
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.peek(true).0 {
                        Token::ClosedPar => {
                            values.push(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            self.at += 1;
                            values.push(String::new());
                        }
                        _ => {}
                    }
                }
                (_, literal) => {
                    return Err(format!("found '{literal}', expected: ',', or identifier"));
                }
            }
        }
    }
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    ends.is_some_and(|(a, b)| a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// The rules for label values that `value` breaks.
pub(super) fn broken_value_rules(value: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if value.len() > 63 {
        broken.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_qualified(value) {
        broken.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    broken
}

/// `IsQualifiedName` of apimachinery.
fn check_key(key: &str) -> Result<(), String> {
    const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                        is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'";
    let refused = |why: &str| Err(format!("key: Invalid value: \"{key}\": {why}"));
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if name.contains('/') {
        let why = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
        return refused(&format!("a qualified name {NAME}) {why}"));
    }
    let mut broken: Vec<String> = Vec::new();
    match prefix {
        Some("") => broken.push("prefix part must be non-empty".into()),
        Some(prefix) => {
            broken.extend(names::broken_by_subdomain(prefix).map(|why| format!("prefix part {why}")));
        }
        None => {}
    }
    if name.is_empty() {
        broken.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        broken.push("name part must be no more than 63 bytes".into());
    }
    if !is_qualified(name) {
        broken.push(format!("name part {NAME})"));
    }
    if broken.is_empty() { Ok(()) } else { refused(&broken.join("; ")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        LabelSelector::parse(selector)
            .unwrap()
            .matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
    }

    #[test]
    fn every_operator_selects_as_documented() {
        let labels = [("app", "web"), ("n", "5"), ("e", "")];
        let table = [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            ("app = web , n=5", true),
            ("app!=web", false),
            ("missing!=web", true),
            ("app", true),
            ("!app", false),
            ("!missing", true),
            ("missing", false),
            ("app in (web,db)", true),
            ("app notin (web,db)", false),
            ("missing notin (web)", true),
            ("n>4", true),
            ("n<4", false),
            ("e=", true),
            ("e in ()", true),
            ("app in (,web)", true),
            ("in in (in)", false),
        ];
        for (selector, expected) in table {
            assert_eq!(matches(selector, &labels), expected, "{selector}");
        }
    }

    #[test]
    fn errors_carry_the_parsers_text() {
        let table = [
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("=a", "found '=', expected: !, identifier, or 'end of string'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            (
                "a>x",
                "unable to parse requirement: values[0][a]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value \
                 must be an integer",
            ),
        ];
        for (selector, expected) in table {
            assert_eq!(LabelSelector::parse(selector).unwrap_err(), expected, "{selector}");
        }
        // Found by a fuzzer: the prefix of a key was not looked at.
        for (key, expected) in [
            ("a_b/c", "prefix part a lowercase RFC 1123 subdomain must consist of "),
            ("A/b", "prefix part a lowercase RFC 1123 subdomain must consist of "),
            ("/b", "prefix part must be non-empty"),
            ("a/", "name part must be non-empty; name part must consist of "),
            ("a/b/c", "a qualified name must consist of "),
        ] {
            let error = LabelSelector::parse(key).unwrap_err();
            let start = format!("unable to parse requirement: key: Invalid value: \"{key}\": {expected}");
            assert!(error.starts_with(&start), "{error}");
        }
        let long = format!("a={}", "x".repeat(64));
        let expected = format!(
            "unable to parse requirement: values[0][a]: Invalid value: \"{}\": must be no more than 63 bytes",
            "x".repeat(64)
        );
        assert_eq!(LabelSelector::parse(&long).unwrap_err(), expected);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-c=!(), <>/\\.é\t]{0,24}") {
            let _ = LabelSelector::parse(&text);
        }

        #[test]
        fn in_is_the_opposite_of_notin(value in "[a-z]{1,3}", listed in prop::collection::vec("[a-z]{1,3}", 1..4)) {
            let list = listed.join(",");
            let labels = [("k", value.as_str())];
            prop_assert_eq!(matches(&format!("k in ({list})"), &labels), listed.contains(&value));
            prop_assert_eq!(matches(&format!("k notin ({list})"), &labels), !listed.contains(&value));
        }
    }
}
