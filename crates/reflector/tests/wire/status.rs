//! Error bodies of every sort.

use reflector::wire::Status;

const TOO_LARGE: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 9, current: 7","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#;

fn json(code: u16, body: &str) -> Status {
    Status::from_body(code, Some("application/json"), body.as_bytes())
}

fn message(body: &[u8]) -> String {
    Status::from_body(503, None, body).message
}

#[test]
fn f44_a_status_in_any_formatting() {
    let compact = json(504, TOO_LARGE);
    assert!(compact.is_status_object);
    assert_eq!((compact.code, &*compact.reason), (504, "Timeout"));
    assert_eq!(compact.message, "Timeout: Too large resource version: 9, current: 7");
    assert_eq!(compact.details.causes[0].reason, "ResourceVersionTooLarge");
    assert_eq!(compact.details.retry_after_seconds, Some(1));
    let value: serde_json::Value = serde_json::from_str(TOO_LARGE).unwrap();
    assert_eq!(json(504, &serde_json::to_string_pretty(&value).unwrap()), compact);
    assert_eq!(json(504, &format!("\u{feff}\n {TOO_LARGE}\n")), compact);
    assert_eq!(Status::from_body(500, Some("text/plain"), TOO_LARGE.as_bytes()), compact);
}

#[test]
fn details_and_the_token_for_an_inconsistent_rest() {
    let status = json(
        410,
        r#"{"kind":"Status","metadata":{"continue":"tok"},"message":"m","reason":"Expired","details":{"name":"n","group":"g","kind":"pods","uid":"u","causes":null,"retryAfterSeconds":0},"code":410}"#,
    );
    assert_eq!(status.continue_token.as_deref(), Some("tok"));
    let details = &status.details;
    assert_eq!((&*details.name, &*details.group, &*details.kind, &*details.uid), ("n", "g", "pods", "u"));
    assert_eq!((details.causes.len(), details.retry_after_seconds), (0, None));
}

#[test]
fn all_reasons_are_kept_as_text() {
    for reason in [
        "Unauthorized",
        "Forbidden",
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Gone",
        "Invalid",
        "ServerTimeout",
        "StoreReadError",
        "Timeout",
        "TooManyRequests",
        "BadRequest",
        "MethodNotAllowed",
        "NotAcceptable",
        "RequestEntityTooLarge",
        "UnsupportedMediaType",
        "InternalError",
        "Expired",
        "ServiceUnavailable",
        "NewOne",
    ] {
        assert_eq!(json(400, &format!(r#"{{"kind":"Status","reason":"{reason}"}}"#)).reason, reason);
    }
}

#[test]
fn a_truncated_status_keeps_what_came() {
    for end in 1..TOO_LARGE.len() {
        let status = json(504, &TOO_LARGE[..end]);
        assert_eq!(status.code, 504, "{end}");
        assert!(!status.message.is_empty() && !status.message.contains('\n'), "{end}");
        assert_eq!(status.is_status_object, end >= r#"{"kind":"Status""#.len(), "{end}");
    }
    let cut = TOO_LARGE.find(": 9").unwrap();
    assert_eq!(json(504, &TOO_LARGE[..cut]).message, "Timeout: Too large resource version");
    assert_eq!(json(0, r#"{"kind":"Status","message":"say \"hi\u00"#).message, "say \"hi");
}

#[test]
fn members_of_the_wrong_type_do_not_hide_the_rest() {
    let status = json(
        500,
        r#"{"kind":"Status","metadata":[],"message":"m","reason":7,"details":"x","code":"403","status":null}"#,
    );
    assert_eq!((&*status.message, &*status.reason, status.code), ("m", "", 403));
    assert_eq!(json(500, r#"{"kind":"Status","code":99999999999}"#).code, 500);
}

#[test]
fn json_of_others() {
    assert_eq!(json(502, r#"{"message":"no Route matched"}"#).message, "no Route matched");
    assert_eq!(json(502, r#"{"error":{"code":1,"message":"denied"}}"#).message, "denied");
    assert_eq!(json(502, r#"{"error":"denied"}"#).message, "denied");
    let other = json(502, "{\n  \"oops\": 1\n}");
    assert_eq!((other.is_status_object, &*other.message), (false, r#"{ "oops": 1 }"#));
    assert_eq!(json(502, "[1]").message, "[1]");
    // kube-apiserver 1.36 answers a timeout so, as text/plain.
    let bare =
        r#"{"metadata":{},"status":"Failure","message":"late","reason":"Timeout","details":{},"code":504}"#;
    assert!(json(504, bare).is_status_object);
}

#[test]
fn f44_text_and_nothing() {
    assert_eq!(message(b"404 page not found\n"), "404 page not found");
    assert_eq!(message(b" two\r\n\tlines \x1b[31m "), "two lines [31m");
    assert_eq!(message(b""), "Service Unavailable with an empty body");
    assert_eq!(message(b"{}"), "{}");
    assert_eq!(message(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    let protobuf =
        Status::from_body(401, Some("application/vnd.kubernetes.protobuf"), b"k8s\0\n\x0c\n\x02v1");
    assert_eq!(protobuf.message, "10 bytes of application/vnd.kubernetes.protobuf");
    assert_eq!(Status::from_body(410, None, b"").to_string(), "410: Gone with an empty body");
    assert_eq!(json(403, r#"{"kind":"Status","reason":"Forbidden"}"#).message, "Forbidden");
}

#[test]
fn f44_html_says_its_title_or_first_text() {
    for (page, expected) in [
        ("<!DOCTYPE html><HTML><head><Title lang=en>\n 502 Bad &amp; Gateway </TITLE>", "502 Bad & Gateway"),
        ("<html><style>p{a:b}</style><script>if (a<b) {}</script><p>\n<b>Oops: &lt;x&gt;</b>", "Oops: <x>"),
        ("<html><title></title><body>text", "text"),
        ("<html", "Service Unavailable with a body that says nothing"),
        ("<title>über ÄÖ", "über ÄÖ"),
        ("<p>ÄÖİ<title>İ</title>", "İ"),
    ] {
        assert_eq!(message(page.as_bytes()), expected, "{page}");
    }
}

#[test]
fn absurdly_long_bodies_are_cut() {
    for body in ["x".repeat(3 << 20), "x ".repeat(3 << 20), format!("<p>{}", "é".repeat(1 << 20))] {
        assert!((1000..=1024).contains(&message(body.as_bytes()).chars().count()));
    }
    let long = format!(r#"{{"kind":"Status","reason":"Forbidden","message":"{}"}}"#, "y".repeat(3 << 20));
    let status = json(403, &long);
    assert!(
        status.is_status_object && status.message.chars().count() == 1024 && status.reason == "Forbidden"
    );
    assert_eq!(message("{".repeat(1 << 20).as_bytes()).chars().count(), 1024);
}

#[test]
fn a_message_is_cut_at_its_limit_and_not_before() {
    for (text, expected) in [
        ("x".repeat(1024), "x".repeat(1024)),
        ("x".repeat(1025), "x".repeat(1023) + "…"),
        // A gap is a character, where something follows it.
        ("x".repeat(1022) + " \n y", "x".repeat(1022) + " y"),
        ("x".repeat(1023) + " y", "x".repeat(1022) + "…"),
        ("x".repeat(1024) + " \n", "x".repeat(1024)),
    ] {
        assert_eq!(message(text.as_bytes()), expected);
    }
}

/// Of a body, the first MiB is looked at, and all of it.
#[test]
fn what_lies_beyond_the_first_mebibyte_is_not_looked_at() {
    for (beyond, reason) in [(0, "Late"), (1, "")] {
        let (head, tail) = (r#"{"kind":"Status","pad":""#, r#"","reason":"Late""#);
        let pad = "x".repeat((1 << 20) - head.len() - tail.len() + beyond);
        assert_eq!(json(500, &format!("{head}{pad}{tail}}}")).reason, reason, "{beyond}");
    }
}

/// Whoever sends a code and nothing else has said something.
#[test]
fn codes_have_names() {
    for (code, name) in [
        (400, "Bad Request"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "Not Found"),
        (405, "Method Not Allowed"),
        (406, "Not Acceptable"),
        (409, "Conflict"),
        (410, "Gone"),
        (415, "Unsupported Media Type"),
        (422, "Unprocessable Content"),
        (429, "Too Many Requests"),
        (500, "Internal Server Error"),
        (502, "Bad Gateway"),
        (503, "Service Unavailable"),
        (504, "Gateway Timeout"),
        (418, "an error"),
    ] {
        assert_eq!(Status::from_body(code, None, b"").message, format!("{name} with an empty body"));
    }
}

/// `410 Expired: …`, less what is not there.
#[test]
fn a_status_in_one_line() {
    let line = |code, reason: &str| {
        json(code, &format!(r#"{{"kind":"Status","reason":"{reason}","message":"m"}}"#)).to_string()
    };
    assert_eq!([line(410, "Expired"), line(410, "")], ["410 Expired: m", "410: m"]);
    assert_eq!([line(0, "Expired"), line(0, "")], ["Expired: m", "m"]);
}

/// A validation error may have thousands of causes; each says where it lies.
#[test]
fn causes_are_kept_whole_and_their_number_is_bounded() {
    let cause = r#"{"reason":"FieldValueInvalid","message":" must be\nless ","field":"spec.replicas"}"#;
    let with = |count: usize| {
        let causes = vec![cause; count].join(",");
        json(422, &format!(r#"{{"kind":"Status","details":{{"causes":[{causes}]}}}}"#)).details.causes
    };
    assert_eq!([with(64).len(), with(65).len()], [64, 64]);
    let first = &with(1)[0];
    assert_eq!(
        [&*first.reason, &*first.message, &*first.field],
        ["FieldValueInvalid", "must be less", "spec.replicas"]
    );
}
