//! Causes without credentials.
//!
//! A cause is made of a server's or a transport's own words, and probes are often open to everybody. Nothing should put
//! credentials there, but the output of exec plugins and the pages of proxies are foreign.
//!
//! Where a credential ends is anybody's guess, and a wrong guess shows the rest of it. So the rules do not guess: where
//! one may begin, the cause ends. A cause that is cut too early does little harm, since the log and
//! [`Status::last_error`](crate::protocol::Status::last_error) have all of it.

/// What stands for what is not shown.
const MASK: &str = "[redacted]";

/// A longer cause is cut. In characters.
const LENGTH_MAX: usize = 400;

/// A word that has one of these in it is followed by a credential, with or without a sign.
const PASSWORDS: [&str; 4] = ["password", "passwd", "passphrase", "pwd"];

/// A word that has one of these in it and a sign after it is followed by a credential.
const NAMES: [&str; 6] = ["token", "secret", "authorization", "cookie", "credential", "signature"];

/// A word that ends with one of these and has a sign after it is followed by a credential.
const ENDINGS: [&str; 7] = ["pass", "key", "sig", "auth", "cred", "creds", "jwt"];

/// After one of these words comes a credential, but for [`NO_CREDENTIALS`].
const SCHEMES: [&str; 3] = ["bearer", "basic", "negotiate"];

/// What people write after the name of a scheme.
const NO_CREDENTIALS: [&str; 6] = ["auth", "authentication", "authorization", "scheme", "token", "tokens"];

/// One line, cut to a bearable length and where a credential may begin.
///
/// - A URL loses its login and its query.
/// - After the name of a credential and `:`, `=` or `>`, after any word like `password`, and after the name of an
///   authentication scheme, nothing is shown.
/// - Long words of letters and digits, as tokens and keys are, are blackened wherever they stand.
pub(super) fn redact(text: &str) -> String {
    let chunks: Vec<_> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|chunk| !chunk.is_empty())
        .map(without_login)
        .collect();
    let line = chunks.join(" ");
    let end = credential(&line);
    let mut shown = without_tokens(end.map_or(&line, |end| &line[..end]));
    if end.is_some() {
        shown.push(' ');
        shown.push_str(MASK);
    }
    shortened(shown)
}

/// `https://user:password@host/path?query` without what stands before the `@` and after the `?`.
///
/// All up to the last `@`: a password may have any character in it, and there may be a second URL.
fn without_login(chunk: &str) -> String {
    let Some((scheme, rest)) = chunk.split_once("://") else { return chunk.to_owned() };
    let (login, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => (format!("{MASK}@"), rest),
        None => (String::new(), rest),
    };
    match rest.split_once(['?', '#']) {
        Some((path, _)) => format!("{scheme}://{login}{path}?{MASK}"),
        None => format!("{scheme}://{login}{rest}"),
    }
}

/// Where in a line a credential may begin: behind the word that says so.
fn credential(line: &str) -> Option<usize> {
    let mut at = 0;
    for chunk in line.split_inclusive(' ') {
        // `system:serviceaccount:external-secrets:reader`, as servers call users.
        if !is_user(chunk) {
            for (start, word) in words(chunk) {
                let end = at + start + word.len();
                if begins_after(word, &line[end..]) {
                    return Some(end);
                }
            }
        }
        at += chunk.len();
    }
    None
}

/// The words of a text, and where they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let parts = text.split_inclusive(move |c| !is_part(c)).scan(0, |at, part| {
        let start = *at;
        *at += part.len();
        Some((start, part))
    });
    parts
        .map(move |(start, part)| (start, part.trim_end_matches(|c| !is_part(c))))
        .filter(|(_, w)| !w.is_empty())
}

/// Whether a credential may follow on a word.
fn begins_after(word: &str, rest: &str) -> bool {
    let word: String = word.to_lowercase().replace(['-', '_'], "");
    let has = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
    let named = has(&NAMES) || ENDINGS.iter().any(|ending| word.ends_with(ending));
    let sign = rest.trim_start_matches(['"', '\'', '`', '\\', ' ', ']']).starts_with([':', '=', '>']);
    let next = rest.trim_start().split(' ').next().unwrap_or_default();
    let next = next.trim_end_matches(|c: char| c.is_ascii_punctuation()).to_lowercase();
    has(&PASSWORDS)
        || (named && sign)
        || (SCHEMES.contains(&&*word) && !next.is_empty() && !NO_CREDENTIALS.contains(&&*next))
}

/// A user of Kubernetes, whose name may be like that of a credential.
fn is_user(chunk: &str) -> bool {
    let name = chunk.trim_matches(|c| matches!(c, '"' | '\'' | ' ' | ','));
    name.starts_with("system:")
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:".contains(c))
}

/// The line without long words that nobody writes by hand.
fn without_tokens(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for part in line.split_inclusive(is_delimiter) {
        let word = part.trim_end_matches(is_delimiter);
        shown.push_str(if is_encoded(word) { MASK } else { word });
        shown.push_str(&part[word.len()..]);
    }
    shown
}

fn is_delimiter(c: char) -> bool {
    " \"'`,;&(){}[]<>:=\\".contains(c)
}

/// Whether it looks like a token or a key: long, of letters and digits, and neither a host, a path of words, a uid, nor a
/// number.
fn is_encoded(word: &str) -> bool {
    let any = |test: fn(&char) -> bool| word.chars().any(|c| test(&c));
    let digit = any(char::is_ascii_digit);
    let mixed = digit && any(char::is_ascii_lowercase) && any(char::is_ascii_uppercase);
    let unbroken = digit && any(char::is_ascii_alphabetic) && word.chars().all(|c| c.is_ascii_alphanumeric());
    (mixed && word.len() >= 24) || (unbroken && word.len() >= 32)
}

fn shortened(line: String) -> String {
    match line.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
