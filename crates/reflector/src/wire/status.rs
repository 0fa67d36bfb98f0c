//! What a server meant to say with an error.

use std::fmt;

use serde::Deserialize;

use super::{
    json::{
        meta::{self, Leaf, leaf},
        scan::{Scanner, Token},
    },
    protobuf,
};

/// Of a longer body, only the beginning is looked at. In bytes.
const BODY_MAX: usize = 1 << 20;

/// A longer message is cut. In characters.
const MESSAGE_MAX: usize = 1024;

/// An error as a server told it: a Kubernetes `Status`, or what could be made of a text, an HTML page, or nothing.
///
/// Proxies, load balancers and the API server's own outer layers answer in all of these forms (API server
/// 1.36 sends some of its 404, 429, 503 and 504 as text), so no field but `code` can be relied on to say much.
///
/// ```
/// use reflector::wire::Status;
///
/// let body = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
///     "message":"too old resource version: 5 (9)","reason":"Expired","code":410}"#;
/// let status = Status::from_body(410, Some("application/json"), body);
/// assert_eq!(status.reason, "Expired");
/// assert!(status.is_status_object);
///
/// let status = Status::from_body(502, Some("text/html"), b"<html><title>Bad Gateway</title></html>");
/// assert_eq!(status.to_string(), "502: Bad Gateway");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The code in the Status, else that of the HTTP response; 0 for an error in a stream that has none.
    pub code: u16,
    /// The reason in one word, as the server wrote it: `Expired`, `Forbidden`, …; empty if it gave none.
    pub reason: String,
    /// One line for people, without control characters, at most 1024 characters. Never empty.
    pub message: String,
    /// What the error is about.
    pub details: StatusDetails,
    /// `metadata.continue`: where a list whose token expired may go on at a newer version; `None` if empty.
    pub continue_token: Option<String>,
    /// Whether a real Status came. Otherwise only `code` and `message` are set.
    pub is_status_object: bool,
}

/// What an error is about; empty where the server did not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusDetails {
    /// The name of the object.
    pub name: String,
    /// The API group of the resource.
    pub group: String,
    /// The resource, in the plural; in some errors the kind.
    pub kind: String,
    /// The uid of the object.
    pub uid: String,
    /// The causes, in the server's order.
    pub causes: Vec<StatusCause>,
    /// After how many seconds to ask again; `None` if absent or 0.
    pub retry_after_seconds: Option<u32>,
}

/// One cause of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusCause {
    /// In one word, such as `ResourceVersionTooLarge`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The field that it is about, such as `metadata.name`.
    pub field: String,
}

impl Status {
    /// Makes the best of an error response, whatever its body is. It never fails, and looks at the first MiB at most.
    ///
    /// A Status is recognised in any formatting, also if the end of it is missing. `content_type` is only a hint:
    /// servers are known to send JSON as text and text as JSON.
    #[must_use]
    pub fn from_body(http_status: u16, content_type: Option<&str>, body: &[u8]) -> Self {
        let body = body.get(..BODY_MAX).unwrap_or(body);
        let json = protobuf::status_json(body);
        let body = json.as_deref().unwrap_or(body);
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii();
        let mut status = match body.first() {
            Some(b'{') => Self::from_json(body),
            _ => Self { message: text_message(content_type, body), ..Self::default() },
        };
        if status.code == 0 {
            status.code = http_status;
        }
        if status.message.is_empty() {
            status.message = if status.reason.is_empty() {
                // The type is the server's text too.
                let body = if body.is_empty() { "an empty body" } else { "a body that says nothing" };
                format!("{} with {body}", phrase(status.code))
            } else {
                status.reason.clone()
            };
        }
        status
    }

    /// The object of an ERROR event.
    pub(super) fn from_object(json: &[u8]) -> Self {
        Self::from_body(0, Some("application/json"), json)
    }

    /// The members of a JSON object, as far as they are complete.
    fn from_json(body: &[u8]) -> Self {
        let mut raw = Raw::default();
        let mut scanner = Scanner::new(1000);
        scanner.watch = 1;
        let mut rest = body;
        // The member that is being read: its name, and where its value began.
        let mut open = None;
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        while let Ok(Some(token)) = scanner.next(&mut rest) {
            match token {
                Token::Start { depth: 1, .. } => {
                    open = Some((meta::name(scanner.key()).into_owned(), at(scanner.offset() - 1)));
                }
                Token::End { depth: 1 } => {
                    if let Some((name, start)) = open.take() {
                        raw.member(&name, body.get(start..at(scanner.offset())).unwrap_or_default());
                    }
                }
                Token::End { .. } => break,
                Token::Start { .. } => {}
            }
        }
        // The body ended in the middle of the message: better half of it than none.
        if let Some((name, start)) = open
            && name == b"message"
            && let Some(half) = body.get(start..)
        {
            raw.message = half_text(half);
        }
        raw.status(body)
    }
}

impl fmt::Display for Status {
    /// `410 Expired: too old resource version`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.code != 0 {
            write!(f, "{}", self.code)?;
        }
        if !self.reason.is_empty() {
            let gap = if self.code == 0 { "" } else { " " };
            write!(f, "{gap}{}", self.reason)?;
        }
        if self.code != 0 || !self.reason.is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

/// The members of a body that may be a Status.
#[derive(Default)]
struct Raw {
    kind: String,
    status: String,
    reason: String,
    message: String,
    /// What others than Kubernetes call a message.
    error: String,
    code: u16,
    details: StatusDetails,
    continue_token: String,
}

impl Raw {
    fn member(&mut self, name: &[u8], json: &[u8]) {
        match name {
            b"kind" => self.kind = leaf(json).into_text(),
            b"status" => self.status = leaf(json).into_text(),
            b"reason" => self.reason = short_line(&leaf(json).into_text(), 128),
            b"message" => self.message = leaf(json).into_text(),
            b"code" => {
                let code = integer(&leaf(json)).and_then(|code| u16::try_from(code).ok());
                self.code = code.unwrap_or_default();
            }
            b"metadata" => {
                if let Ok(RawMetadata { r#continue }) = serde_json::from_slice(json) {
                    self.continue_token = r#continue.into_text();
                }
            }
            b"details" => {
                if let Ok(details) = serde_json::from_slice::<RawDetails<'_>>(json) {
                    self.details = details.read();
                }
            }
            b"error" | b"error_description" | b"detail" | b"title" if self.error.is_empty() => {
                self.error = match serde_json::from_slice(json) {
                    Ok(RawError { message }) => message.into_text(),
                    Err(_) => leaf(json).into_text(),
                };
            }
            _ => {}
        }
    }

    fn status(self, body: &[u8]) -> Status {
        // A text/plain timeout of kube-apiserver 1.36 is a Status without its kind.
        let bare = self.kind.is_empty() && self.status == "Failure" && self.code != 0;
        if self.kind == "Status" || bare {
            return Status {
                code: self.code,
                message: short_line(&self.message, MESSAGE_MAX),
                reason: self.reason,
                details: self.details,
                continue_token: (!self.continue_token.is_empty()).then_some(self.continue_token),
                is_status_object: true,
            };
        }
        let text = [self.message, self.error].into_iter().find(|text| !text.trim().is_empty());
        let text = text.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
        Status { message: short_line(&text, MESSAGE_MAX), ..Status::default() }
    }
}

#[derive(Deserialize)]
struct RawMetadata<'a> {
    #[serde(borrow, default)]
    r#continue: Leaf<'a>,
}

#[derive(Deserialize)]
struct RawError<'a> {
    #[serde(borrow)]
    message: Leaf<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDetails<'a> {
    #[serde(borrow, default)]
    name: Leaf<'a>,
    #[serde(borrow, default)]
    group: Leaf<'a>,
    #[serde(borrow, default)]
    kind: Leaf<'a>,
    #[serde(borrow, default)]
    uid: Leaf<'a>,
    #[serde(borrow, default)]
    causes: Option<Vec<RawCause<'a>>>,
    #[serde(borrow, default)]
    retry_after_seconds: Leaf<'a>,
}

#[derive(Deserialize)]
struct RawCause<'a> {
    #[serde(borrow, default)]
    reason: Leaf<'a>,
    #[serde(borrow, default)]
    message: Leaf<'a>,
    #[serde(borrow, default)]
    field: Leaf<'a>,
}

impl RawDetails<'_> {
    fn read(self) -> StatusDetails {
        let line = |leaf: Leaf<'_>| short_line(&leaf.into_text(), MESSAGE_MAX);
        let seconds = integer(&self.retry_after_seconds).and_then(|n| u32::try_from(n).ok());
        StatusDetails {
            name: line(self.name),
            group: line(self.group),
            kind: line(self.kind),
            uid: line(self.uid),
            causes: self
                .causes
                .into_iter()
                .flatten()
                // Validation errors may have thousands.
                .take(64)
                .map(|cause| StatusCause {
                    reason: line(cause.reason),
                    message: line(cause.message),
                    field: line(cause.field),
                })
                .collect(),
            retry_after_seconds: seconds.filter(|seconds| *seconds > 0),
        }
    }
}

fn integer(leaf: &Leaf<'_>) -> Option<i64> {
    match leaf {
        Leaf::Integer(number) => Some(*number),
        Leaf::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// The text of a JSON string whose end is missing.
fn half_text(json: &[u8]) -> String {
    let text = String::from_utf8_lossy(json);
    let text = text.trim_end_matches('\u{fffd}');
    // The last escape may be cut as well.
    let whole = match text.rfind('\\') {
        Some(at) if text.len() - at < 6 => text[..at].trim_end_matches('\\'),
        _ => text,
    };
    leaf(format!("{whole}\"").as_bytes()).into_text()
}

/// What a body that is not a JSON object says.
fn text_message(content_type: Option<&str>, body: &[u8]) -> String {
    // No text holds a NUL; protobuf bodies begin with `k8s\0`.
    let head = body.get(..512).unwrap_or(body);
    if head.contains(&0) {
        let of = content_type.map(|t| format!(" of {}", short_line(t, 64))).unwrap_or_default();
        return format!("{} bytes{of}", body.len());
    }
    let text = String::from_utf8_lossy(body);
    let is_html = content_type.is_some_and(|t| t.trim_start().to_ascii_lowercase().starts_with("text/html"));
    if text.starts_with('<') || is_html { html_message(&text) } else { short_line(&text, MESSAGE_MAX) }
}

/// The title of an HTML page, or its first text.
fn html_message(page: &str) -> String {
    // ASCII only, so that offsets are the same in both.
    let lower = page.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|at| {
        let start = at + lower.get(at..)?.find('>')? + 1;
        let end = start + lower.get(start..)?.find('<')?;
        page.get(start..end)
    });
    if let Some(title) =
        title.map(|title| short_line(&entities(title), MESSAGE_MAX)).filter(|t| !t.is_empty())
    {
        return title;
    }
    let mut at = 0;
    while at < page.len() {
        let (rest, rest_lower) = (&page[at..], &lower[at..]);
        if rest.starts_with('<') {
            // What stands between these two is not text.
            let end = ["script", "style"]
                .into_iter()
                .find(|tag| rest_lower[1..].starts_with(tag))
                .map_or(">", |tag| if tag == "script" { "</script>" } else { "</style>" });
            at += rest_lower.find(end).map_or(rest.len(), |found| found + end.len());
            continue;
        }
        let end = rest.find('<').unwrap_or(rest.len());
        let text = short_line(&entities(&rest[..end]), MESSAGE_MAX);
        if !text.is_empty() {
            return text;
        }
        at += end;
    }
    String::new()
}

/// The few entities that error pages use.
fn entities(text: &str) -> String {
    text.replace("&nbsp;", " ")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// One trimmed line of at most `max` characters: runs of white space and control characters become one space.
pub(super) fn short_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = count > 0;
            continue;
        }
        if count + usize::from(gap) >= max {
            // The last character makes room for the mark.
            line.pop();
            line.push('…');
            break;
        }
        if std::mem::take(&mut gap) {
            line.push(' ');
            count += 1;
        }
        line.push(c);
        count += 1;
    }
    line
}

fn phrase(code: u16) -> &'static str {
    match code {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        409 => "Conflict",
        410 => "Gone",
        415 => "Unsupported Media Type",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "an error",
    }
}
