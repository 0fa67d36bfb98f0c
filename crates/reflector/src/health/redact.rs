//! Causes without credentials.
//!
//! A cause is made of a server's or a transport's own words, and probes are often open to everybody. Nothing should put
//! credentials there, but the output of exec plugins and the pages of proxies are foreign. This catches the usual forms;
//! a word too many that is blackened does little harm.

const MASK: &str = "[redacted]";

/// A longer cause is cut. In characters.
const LENGTH_MAX: usize = 400;

/// A word ends with one of these, then `:` or `=`, and then comes a credential.
const NAMES: [&str; 8] =
    ["token", "password", "passwd", "pwd", "secret", "authorization", "apikey", "api-key"];

/// A credential follows without more ado.
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// One line, cut to a bearable length, in which everything that looks like a credential is blackened.
pub(super) fn redact(text: &str) -> String {
    let mut scan = Scan { line: String::new(), before: Before::Nothing };
    for chunk in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|c| !c.is_empty()) {
        if !scan.line.is_empty() {
            scan.line.push(' ');
        }
        scan.chunk(&without_login(chunk));
    }
    shortened(scan.line)
}

/// What the word before says of the next one.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    /// The name of a credential; it is nothing yet without a `:` or `=`.
    Name,
    /// The name and the sign. Everything up to the end of the value is to be blackened.
    Assigned,
    Scheme,
}

struct Scan {
    line: String,
    before: Before,
}

impl Scan {
    /// Everything between two blanks.
    fn chunk(&mut self, chunk: &str) {
        let mut in_value = false;
        for part in chunk.split_inclusive(is_delimiter) {
            let word = part.trim_end_matches(is_delimiter);
            let sign = &part[word.len()..];
            // What follows in the same value is covered by the same mask.
            if !word.is_empty() && !in_value {
                in_value = self.word(word);
            }
            let assigns = matches!(sign, ":" | "=");
            if assigns && in_value {
                continue;
            }
            in_value = false;
            if assigns && self.before == Before::Name {
                self.before = Before::Assigned;
            }
            self.line.push_str(sign);
        }
    }

    /// Shows or blackens one word; whether it is the beginning of a value.
    fn word(&mut self, word: &str) -> bool {
        let before = std::mem::replace(&mut self.before, kind(word));
        let hidden = match before {
            Before::Assigned => self.before == Before::Nothing,
            Before::Scheme => self.before == Before::Nothing && word.len() >= 8 && !is_prose(word),
            Before::Nothing | Before::Name => false,
        };
        self.line.push_str(if hidden || is_encoded(word) { MASK } else { word });
        hidden
    }
}

fn is_delimiter(c: char) -> bool {
    "\"'`,;&(){}[]<>:=\\".contains(c)
}

fn kind(word: &str) -> Before {
    let word = word.to_ascii_lowercase();
    if SCHEMES.contains(&word.as_str()) {
        Before::Scheme
    } else if NAMES.iter().any(|name| word.ends_with(name)) {
        Before::Name
    } else {
        Before::Nothing
    }
}

fn is_prose(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase() || c == '.')
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

/// `https://user:password@host` without what stands before the `@`.
fn without_login(chunk: &str) -> String {
    let Some((scheme, rest)) = chunk.split_once("://") else { return chunk.to_owned() };
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((login, _)) => format!("{scheme}://{MASK}{}", &rest[login.len()..]),
        None => chunk.to_owned(),
    }
}

fn shortened(line: String) -> String {
    match line.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn credentials_are_blackened() {
        let cases = [
            "Authorization: Bearer hunter2-hunter2",
            "authorization=Basic aHVudGVyMjpodW50ZXIy",
            "unexpected answer to bearer hunter2hunter2",
            r#"Output { stdout: "{\"token\":\"hunter2\",\"kind\":\"x\"}" }"#,
            r#"{"access_token": "hunter2"}"#,
            "password=p@ss:hunter2=x rest",
            "client-secret: hunter2",
            "GET https://me:hunter2@example.com/api failed",
            "got eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.hunter2.c2lnbmF0dXJlMTIzNDU2Nzg5",
            "key 0123456789abcdef0123456789abcdefhunter2 is unknown",
        ];
        for case in cases {
            let clean = redact(case);
            assert!(!clean.contains("hunter2") && !clean.contains("aHVudGVy"), "{clean}");
            assert!(clean.contains(MASK), "{clean}");
        }
        assert_eq!(redact("password=p@ss:hunter2=x rest"), "password=[redacted] rest");
        assert_eq!(redact("https://me:hunter2@example.com/api"), "https://[redacted]@example.com/api");
    }

    #[test]
    fn what_servers_usually_say_is_left_alone() {
        let cases = [
            "403 Forbidden: secrets is forbidden: User \"system:serviceaccount:shop:cart\" cannot list resource \
             \"secrets\" in API group \"\" in the namespace \"shop\"",
            "invalid bearer token, token has expired",
            "basic auth is off",
            "connect: tcp connect error: Connection refused (os error 111)",
            "dns error: failed to lookup address of api-7f9c.eu-central-1.elb.example.com:6443",
            "422 Invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch",
            "too old resource version: 18446744073709551615 (18446744073709551616)",
            "uid 3f1c2a9e-8a2b-4f6d-9a57-0c1d2e3f4a5b is gone",
        ];
        for case in cases {
            assert_eq!(redact(case), case);
        }
    }

    #[test]
    fn it_is_one_line_of_bounded_length() {
        assert_eq!(redact("a\n b\u{0}c\r\n"), "a b c");
        let long = redact(&"ä ".repeat(1000));
        assert_eq!(long.chars().count(), LENGTH_MAX + 1);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC{0,80}", secret in "[a-z]{4}[0-9]{4}[!@$%*?]{2}") {
            redact(&text);
            let clean = redact(&format!("{text} password={secret}"));
            prop_assert!(!clean.contains(&secret), "{}", clean);
        }
    }
}
