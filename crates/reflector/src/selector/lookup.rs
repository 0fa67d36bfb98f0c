//! Finds one field of an object in its JSON, without decoding anything else.

use std::borrow::Cow;

use crate::wire::json::{
    meta::{self, Leaf},
    scan::{Scanner, Token},
};

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// Nothing, or null.
    Missing,
    /// A string without its quotes and escapes; a number or boolean as it is written.
    Text(Cow<'a, str>),
    /// An object, an array, or text that is not valid.
    Other,
}

impl Found<'_> {
    pub(super) fn into_owned(self) -> Found<'static> {
        match self {
            Self::Missing => Found::Missing,
            Self::Text(text) => Found::Text(Cow::Owned(text.into_owned())),
            Self::Other => Found::Other,
        }
    }
}

/// What a dotted path leads to. Of duplicates the last counts; in a body that is not one JSON object there is nothing.
pub(super) fn find<'a>(json: &'a [u8], path: &str) -> Found<'a> {
    let names = path.split('.').count();
    let mut scanner = Scanner::new(usize::MAX);
    let mut rest = json;
    // Where the member before, or the bracket around it, ended; and where the value begins that the path leads to.
    let (mut from, mut start) = (0, None);
    let mut found = Found::Missing;
    while let Ok(Some(token)) = scanner.next(&mut rest) {
        let at = json.len() - rest.len();
        match token {
            Token::Start { depth: 0, .. } => (scanner.watch, from) = (1, at),
            Token::Start { depth, first } => {
                let between = json.get(from..at - 1).unwrap_or_default();
                let wanted = path.split('.').nth(depth - 1).unwrap_or_default();
                if *meta::name_at_end(between) == *wanted.as_bytes() {
                    found = Found::Missing;
                    if depth == names {
                        start = Some(at - 1);
                    } else if first == b'{' {
                        scanner.watch = depth + 1;
                    }
                }
                from = at;
            }
            Token::End { depth: 0 } => return found,
            Token::End { depth } => {
                (scanner.watch, from) = (depth, at);
                if let Some(start) = start.take() {
                    found = value(json.get(start..at).unwrap_or_default());
                }
            }
        }
    }
    Found::Missing
}

fn value(json: &[u8]) -> Found<'_> {
    match json.first() {
        Some(b'"') => match meta::leaf(json) {
            Leaf::Text(text) => Found::Text(text),
            _ => Found::Other,
        },
        Some(b'{' | b'[') => Found::Other,
        Some(b'n') | None => Found::Missing,
        Some(_) => std::str::from_utf8(json).map_or(Found::Other, |text| Found::Text(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn text(text: &str) -> Found<'_> {
        Found::Text(text.into())
    }

    #[test]
    fn a_path_leads_to_the_text_of_a_value() {
        let body = br#" { "a" : {"b":"x\ty", "n":1.50e1, "t":true, "z":null, "o":{}, "l":["b"]}, "\u0062":"b", "c":{"d":"e"} } "#;
        let table = [
            ("a.b", text("x\ty")),
            ("a.n", text("1.50e1")),
            ("a.t", text("true")),
            ("a.z", Found::Missing),
            ("a.o", Found::Other),
            ("a.l", Found::Other),
            ("a", Found::Other),
            ("b", text("b")),
            ("a.l.b", Found::Missing),
            ("a.b.c", Found::Missing),
            ("n", Found::Missing),
            ("a.o.x", Found::Missing),
            // Found in the wrong place if the search stays as deep as it was in `a`.
            ("a.d", Found::Missing),
        ];
        for (path, expected) in table {
            assert_eq!(find(body, path), expected, "{path}");
        }
    }

    #[test]
    fn of_duplicates_the_last_counts() {
        assert_eq!(find(br#"{"a":{"b":"1"},"a":{"b":"2","b":3}}"#, "a.b"), text("3"));
        assert_eq!(find(br#"{"a":{"b":"1"},"a":{}}"#, "a.b"), Found::Missing);
        assert_eq!(find(br#"{"a":{"b":"1"},"a":7}"#, "a.b"), Found::Missing);
    }

    #[test]
    fn a_broken_body_has_no_fields() {
        for body in ["", "{", "[]", r#"{"a":"1""#, r#"{"a":"1",}"#, r#"{"a":"1"]"#, "\"a\""] {
            assert_eq!(find(body.as_bytes(), "a"), Found::Missing, "{body}");
        }
        assert_eq!(find(b"{\"a\":\"\xff\"}", "a"), Found::Other);
        assert_eq!(find(br#"{"a":"\ud800"}"#, "a"), Found::Other);
    }

    /// As one writes it with everything decoded.
    fn naive(body: &Value, path: &str) -> String {
        let mut value = body;
        for name in path.split('.') {
            value = value.as_object().and_then(|o| o.get(name)).unwrap_or(&Value::Null);
        }
        match value {
            Value::Null => "missing".into(),
            Value::String(text) => format!("text {text}"),
            Value::Array(_) | Value::Object(_) => "other".into(),
            other => format!("text {other}"),
        }
    }

    fn body() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c\"\\\\{},:\u{e4}\u{1}]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                3 => prop::collection::btree_map("[a-c]|\u{e4}\"", inner.clone(), 0..4)
                    .prop_map(|members| Value::from(serde_json::Map::from_iter(members))),
                1 => prop::collection::vec(inner, 0..3).prop_map(Value::from),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_decoding_finds(
            members in [body(), body(), body()], path in "[a-c](\\.[a-c]){0,3}", pretty: bool,
        ) {
            let body = serde_json::json!({"a": members[0], "b": members[1], "c": members[2]});
            let json = if pretty { serde_json::to_vec_pretty(&body) } else { serde_json::to_vec(&body) }.unwrap();
            let found = match find(&json, &path) {
                Found::Missing => "missing".to_owned(),
                Found::Text(text) => format!("text {text}"),
                Found::Other => "other".to_owned(),
            };
            prop_assert_eq!(found, naive(&body, &path));
        }

        #[test]
        fn no_bytes_make_it_panic(body: Vec<u8>, cut in 0_usize..60) {
            find(&body, "a.b");
            let whole = br#"{"a":{"b":[1,{"c":"d"}],"b":"\u00e4"},"b":null,"c":-1.5e3}"#;
            find(whole.get(..cut).unwrap_or(whole), "a.b");
        }
    }
}
