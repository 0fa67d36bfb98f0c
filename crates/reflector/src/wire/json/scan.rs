//! The scanner: where do values begin and end?
//!
//! It is fed chunks of any size and keeps its place between them. Every byte is checked against the grammar of
//! RFC 8259, but no value is built and no number converted. It stops only at values that lie no deeper than
//! [`Scanner::watch`]; everything below runs in one loop that does two things well: inside strings it looks at eight
//! bytes at a time, and outside it looks at each byte once.
//!
//! Eight bytes at a time rather than `memchr2`: most strings of Kubernetes objects are shorter than 20 bytes, where
//! the call costs more than it saves, and control characters, which end a string as an error, are found on the way.

use crate::wire::WireError;

/// Where the scanner stopped. The position is [`Scanner::offset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A value begins; its first byte, which lies just before the position, is `first`.
    Start { depth: usize, first: u8 },
    /// A value ended just before the position.
    End { depth: usize },
}

/// Longer member names than this are nobody's here, however they are escaped.
const KEY_MAX: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before, between and after documents.
    Document,
    /// After `[`.
    ElementOrEnd,
    /// After `:`, or after `,` in an array.
    Value,
    /// After `{`.
    KeyOrEnd,
    /// After `,` in an object.
    Key,
    Colon,
    /// After a value.
    Next,
    /// In a string; whether it is a member's name.
    Text(bool),
    /// After a backslash.
    Escape(bool),
    /// After `\u`; how many hexadecimal digits are missing.
    Hex(bool, u8),
    Number(Number),
    /// In a literal: which, and how many bytes of it were taken.
    Literal(Literal, u8),
}

/// RFC 8259 §3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Literal {
    True,
    False,
    Null,
}

impl Literal {
    fn text(self) -> &'static [u8] {
        match self {
            Self::True => b"true",
            Self::False => b"false",
            Self::Null => b"null",
        }
    }
}

/// RFC 8259 §6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Scanner {
    state: State,
    /// For each open bracket outside the innermost: whether it is `{`.
    outer: Vec<bool>,
    /// Whether the innermost open bracket is `{`.
    in_object: bool,
    /// How many brackets are open.
    depth: usize,
    depth_max: usize,
    /// How many bytes were taken so far.
    offset: u64,
    /// Stop at values with at most this many brackets around them.
    pub(crate) watch: usize,
    /// The name of the member that is being read, as written; only kept at watched depths.
    key: Vec<u8>,
}

impl Scanner {
    pub(crate) fn new(depth_max: usize) -> Self {
        Self {
            state: State::Document,
            outer: Vec::new(),
            in_object: false,
            depth: 0,
            depth_max,
            offset: 0,
            watch: 0,
            key: Vec::new(),
        }
    }

    /// How many bytes were taken so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The name of the member whose value began last, as written, without the quotes: it may hold escapes.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Takes bytes from the front of `rest` up to the next token; `None` when all are taken.
    pub(crate) fn next(&mut self, rest: &mut &[u8]) -> Result<Option<Token>, WireError> {
        let mut at = 0;
        let found = self.run(rest, &mut at);
        self.offset += at as u64;
        *rest = rest.get(at..).unwrap_or_default();
        found.map_err(|what| match what {
            Fault::Depth => WireError::TooDeep { offset: self.offset, limit: self.depth_max },
            Fault::Expected(expected) => {
                let found = rest.first().copied().map_or_else(String::new, describe);
                WireError::Syntax { offset: self.offset, what: format!("expected {expected}, found {found}") }
            }
        })
    }

    /// The loop. On a fault, `at` is where the offending byte is.
    fn run(&mut self, bytes: &[u8], at: &mut usize) -> Result<Option<Token>, Fault> {
        while let Some(&byte) = bytes.get(*at) {
            let token = match self.state {
                State::Text(is_key) => self.text(bytes, at, is_key)?,
                State::Key | State::KeyOrEnd => match byte {
                    b'"' => {
                        *at += 1;
                        self.key.clear();
                        self.text(bytes, at, true)?
                    }
                    b'}' if self.state == State::KeyOrEnd => self.close(at),
                    b' ' | b'\n' | b'\r' | b'\t' => skip(at),
                    _ if self.state == State::Key => return Err(Fault::Expected("a member's name")),
                    _ => return Err(Fault::Expected("a member's name or `}`")),
                },
                State::Next => match byte {
                    b',' if !self.in_object => {
                        *at += 1;
                        self.state = State::Value;
                        None
                    }
                    // In compact JSON the next name follows at once.
                    b',' if bytes.get(*at + 1) == Some(&b'"') => {
                        *at += 2;
                        self.key.clear();
                        self.text(bytes, at, true)?
                    }
                    b',' => {
                        *at += 1;
                        self.state = State::Key;
                        None
                    }
                    b'}' if self.in_object => self.close(at),
                    b']' if !self.in_object => self.close(at),
                    b' ' | b'\n' | b'\r' | b'\t' => skip(at),
                    _ if self.in_object => return Err(Fault::Expected("`,` or `}`")),
                    _ => return Err(Fault::Expected("`,` or `]`")),
                },
                State::Value | State::ElementOrEnd => match byte {
                    b']' if self.state == State::ElementOrEnd => self.close(at),
                    b' ' | b'\n' | b'\r' | b'\t' => skip(at),
                    _ => self.value(bytes, byte, at)?,
                },
                State::Colon => match byte {
                    b':' => {
                        *at += 1;
                        self.state = State::Value;
                        None
                    }
                    b' ' | b'\n' | b'\r' | b'\t' => skip(at),
                    _ => return Err(Fault::Expected("`:`")),
                },
                _ => self.rare(bytes, byte, at)?,
            };
            if token.is_some() {
                return Ok(token);
            }
        }
        Ok(None)
    }

    /// A value's first byte, and in the common case the rest of it.
    #[inline(always)]
    fn value(&mut self, bytes: &[u8], byte: u8, at: &mut usize) -> Result<Option<Token>, Fault> {
        let depth = self.depth;
        match byte {
            b'"' => {
                *at += 1;
                if depth > self.watch {
                    return self.text(bytes, at, false);
                }
                self.state = State::Text(false);
            }
            // Every other member of managedFields is an empty object.
            b'{' if bytes.get(*at + 1) == Some(&b'}') && depth > self.watch && depth < self.depth_max => {
                *at += 2;
                self.state = State::Next;
            }
            b'{' | b'[' => self.open(byte == b'{', at)?,
            b'-' => self.begin(State::Number(Number::Minus), at),
            b'0' => self.begin(State::Number(Number::Zero), at),
            b'1'..=b'9' => {
                self.begin(State::Number(Number::Integer), at);
                // A watched value's first byte must be the last one taken when its token is given out.
                if depth > self.watch {
                    let rest = bytes.get(*at..).unwrap_or_default();
                    *at += rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
                }
            }
            b't' => self.begin(State::Literal(Literal::True, 1), at),
            b'f' => self.begin(State::Literal(Literal::False, 1), at),
            b'n' => self.begin(State::Literal(Literal::Null, 1), at),
            _ => return Err(Fault::Expected("a value")),
        }
        Ok((depth <= self.watch).then_some(Token::Start { depth, first: byte }))
    }

    #[inline(always)]
    fn begin(&mut self, state: State, at: &mut usize) {
        *at += 1;
        self.state = state;
    }

    #[inline(always)]
    fn open(&mut self, object: bool, at: &mut usize) -> Result<(), Fault> {
        if self.depth >= self.depth_max {
            return Err(Fault::Depth);
        }
        *at += 1;
        self.outer.push(self.in_object);
        self.in_object = object;
        self.depth += 1;
        self.state = if object { State::KeyOrEnd } else { State::ElementOrEnd };
        Ok(())
    }

    #[inline(always)]
    fn close(&mut self, at: &mut usize) -> Option<Token> {
        *at += 1;
        self.in_object = self.outer.pop().unwrap_or_default();
        self.depth = self.outer.len();
        self.state = if self.depth == 0 { State::Document } else { State::Next };
        self.ended()
    }

    #[inline(always)]
    fn ended(&self) -> Option<Token> {
        (self.depth <= self.watch).then_some(Token::End { depth: self.depth })
    }

    /// The inside of a string, from any byte of it on.
    #[inline(always)]
    fn text(&mut self, bytes: &[u8], at: &mut usize, is_key: bool) -> Result<Option<Token>, Fault> {
        let rest = bytes.get(*at..).unwrap_or_default();
        let plain = plain(rest);
        if is_key {
            self.keep(rest.get(..plain).unwrap_or_default());
        }
        *at += plain;
        match rest.get(plain) {
            None => {
                self.state = State::Text(is_key);
                Ok(None)
            }
            Some(b'"') => {
                *at += 1;
                if is_key {
                    // Nearly always there, and nearly always next: saves one turn of the loop per member.
                    if rest.get(plain + 1) == Some(&b':') {
                        *at += 1;
                        self.state = State::Value;
                    } else {
                        self.state = State::Colon;
                    }
                    return Ok(None);
                }
                self.state = State::Next;
                Ok(self.ended())
            }
            Some(b'\\') => {
                *at += 1;
                if is_key {
                    self.keep(b"\\");
                }
                self.state = State::Escape(is_key);
                Ok(None)
            }
            Some(_) => Err(Fault::Expected("an escape for a control character in a string")),
        }
    }

    /// Everything that is neither structure nor plain text.
    fn rare(&mut self, bytes: &[u8], byte: u8, at: &mut usize) -> Result<Option<Token>, Fault> {
        match self.state {
            State::Document => match byte {
                b'{' => return self.value(bytes, byte, at),
                b' ' | b'\n' | b'\r' | b'\t' => return Ok(skip(at)),
                _ => return Err(Fault::Expected("`{`")),
            },
            State::Escape(is_key) => {
                self.state = match byte {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => State::Text(is_key),
                    b'u' => State::Hex(is_key, 4),
                    _ => return Err(Fault::Expected("an escape such as `\\n`")),
                };
                if is_key {
                    self.keep(&[byte]);
                }
            }
            State::Hex(is_key, left) => {
                if !byte.is_ascii_hexdigit() {
                    return Err(Fault::Expected("a hexadecimal digit"));
                }
                if is_key {
                    self.keep(&[byte]);
                }
                self.state = if left <= 1 { State::Text(is_key) } else { State::Hex(is_key, left - 1) };
            }
            State::Literal(literal, taken) => {
                let missing = literal.text().get(usize::from(taken)..).unwrap_or_default();
                let rest = bytes.get(*at..).unwrap_or_default();
                let same = missing.iter().zip(rest).take_while(|(a, b)| a == b).count();
                *at += same;
                if same == missing.len() {
                    return Ok(self.scalar_ended());
                }
                if same < rest.len() {
                    return Err(Fault::Expected("`true`, `false` or `null`"));
                }
                self.state = State::Literal(literal, taken + same as u8);
                return Ok(None);
            }
            State::Number(number) => return self.number(number, byte, at),
            // All the others have their place in `run`.
            _ => return Err(Fault::Expected("nothing")),
        }
        *at += 1;
        Ok(None)
    }

    /// A number ends at the first byte that does not belong to it, which is not taken.
    fn number(&mut self, number: Number, byte: u8, at: &mut usize) -> Result<Option<Token>, Fault> {
        use Number::{Exponent, ExponentDigits, ExponentSign, Fraction, Integer, Minus, Point, Zero};
        let next = match (number, byte) {
            (Minus, b'0') => Zero,
            (Minus, b'1'..=b'9') | (Integer, b'0'..=b'9') => Integer,
            (Zero | Integer, b'.') => Point,
            (Zero | Integer | Fraction, b'e' | b'E') => Exponent,
            (Point | Fraction, b'0'..=b'9') => Fraction,
            (Exponent, b'+' | b'-') => ExponentSign,
            (Exponent | ExponentSign | ExponentDigits, b'0'..=b'9') => ExponentDigits,
            (Zero | Integer | Fraction | ExponentDigits, _) => return Ok(self.scalar_ended()),
            (Minus | Point | Exponent | ExponentSign, _) => return Err(Fault::Expected("a digit")),
        };
        *at += 1;
        self.state = State::Number(next);
        Ok(None)
    }

    fn scalar_ended(&mut self) -> Option<Token> {
        self.state = State::Next;
        self.ended()
    }

    /// Adds to the name of the member, where anybody will ask for it.
    #[inline]
    fn keep(&mut self, part: &[u8]) {
        if self.depth <= self.watch && self.key.len() <= KEY_MAX {
            let part = part.get(..KEY_MAX + 1 - self.key.len()).unwrap_or(part);
            self.key.extend_from_slice(part);
        }
    }
}

enum Fault {
    Depth,
    Expected(&'static str),
}

#[inline]
fn skip(at: &mut usize) -> Option<Token> {
    *at += 1;
    None
}

/// One byte may be told of a body that may be a Secret.
fn describe(byte: u8) -> String {
    if byte.is_ascii_graphic() { format!("`{}`", byte as char) } else { format!("byte 0x{byte:02x}") }
}

/// How many bytes at the front are neither quote, backslash nor control character.
#[inline]
fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let hits = special(u64::from_le_bytes(*word));
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let tail = bytes.get(at..).unwrap_or_default();
    at + tail.iter().position(|&b| b == b'"' || b == b'\\' || b < 0x20).unwrap_or(tail.len())
}

/// Sets the top bit of each byte of `word` that is a quote, a backslash or below 0x20.
///
/// A borrow may set bits above the first hit too, so only the lowest one counts.
#[inline]
fn special(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; 8]);
    let quote = word ^ (ONES * b'"' as u64);
    let slash = word ^ (ONES * b'\\' as u64);
    let is_quote = quote.wrapping_sub(ONES) & !quote;
    let is_slash = slash.wrapping_sub(ONES) & !slash;
    let is_control = word.wrapping_sub(ONES * 0x20) & !word;
    (is_quote | is_slash | is_control) & TOPS
}
