use proptest::prelude::*;

use super::*;

#[test]
fn credentials_are_not_shown() {
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
    assert_eq!(redact("it has a password=p@ss:hunter2=x rest"), "it has a password [redacted]");
    assert_eq!(redact("https://me:hunter2@example.com/api"), "https://[redacted]@example.com/api");
    assert_eq!(redact("https://example.com/api?x=hunter2#y z"), "https://example.com/api?[redacted] z");
}

/// The value looked like a name itself, and was shown.
#[test]
fn a_credential_that_ends_like_the_name_of_one_is_not_shown() {
    for case in [
        "password=hunter2secret",
        "password: MyPassword",
        "client_secret=topsecret",
        "token=mytoken",
        "Authorization: Bearer",
    ] {
        let name = case.split([':', '=']).next().unwrap();
        assert_eq!(redact(case), format!("{name} [redacted]"));
    }
}

/// The mask ended where the value was thought to end.
#[test]
fn nothing_is_shown_behind_the_beginning_of_a_credential() {
    for case in [
        "password: \"correct horse hunter2\"",
        "password=ab&hunter2",
        "password=a;hunter2",
        "password='it(hunter2'",
        r#""password":"ab\"hunter2""#,
        "password hunter2",
        "<password>hunter2</password>",
        "<token>hunter2</token>",
        "Authorization: Negotiate hunter2+YIIabc",
        "Authorization: token hunter2-abcdef",
        "tokens: [\"hunter2\"]",
        "Bearer  \"hunter2\"",
        "bearer hunterabcdefghunter2",
        "bearer hunteralowercaseonly",
        "http://a/,http://me:hunter2@h/",
        "https://me:hun/hunter2@h/",
        "https://me:pass?hunter2@h/",
        "https://me:pass@word@hunter2@h/",
    ] {
        let clean = redact(case);
        assert!(clean.contains(MASK) && !clean.contains("hunter"), "{case} -> {clean}");
    }
}

#[test]
fn every_usual_name_of_a_credential_is_known() {
    for name in [
        "api_key",
        "apikey",
        "api-key",
        "X-Api-Key",
        "access_key",
        "aws_secret_access_key",
        "private_key",
        "pass",
        "db_pass",
        "passphrase",
        "pwd",
        "Cookie",
        "Set-Cookie",
        "sig",
        "X-Amz-Signature",
        "signature",
        "credential",
        "credentials",
        "passwords",
        "secrets",
        "tokens",
        "id_token",
        "idToken",
        "PASSWORD",
        "clientSecret",
        "auth",
        "_auth",
        "jwt",
    ] {
        for sign in ["=", ": ", "\": \"", "\\\":\\\"", " = ", " => ", "']='"] {
            let clean = redact(&format!("at {name}{sign}hunter2"));
            assert_eq!(clean, format!("at {name} [redacted]"), "{sign}");
        }
    }
}

#[test]
fn what_servers_usually_say_is_left_alone() {
    let cases = [
        "403 Forbidden: secrets is forbidden: User \"system:serviceaccount:shop:cart\" cannot list resource \
         \"secrets\" in API group \"\" in the namespace \"shop\"",
        "403 Forbidden: secretstores.external-secrets.io is forbidden: User \
         \"system:serviceaccount:external-secrets:token-reader\" cannot watch resource \"secretstores\" in API group \
         \"external-secrets.io\" at the cluster scope",
        "roles.rbac.authorization.k8s.io is forbidden: User \"me\" cannot list resource \"roles\" in API group \
         \"rbac.authorization.k8s.io\" in the namespace \"shop\"",
        "serviceaccounts/token is forbidden",
        "401 Unauthorized: Unauthorized",
        "the server has asked for the client to provide credentials",
        "invalid bearer token, token has expired",
        "basic auth is off",
        "connect: tcp connect error: Connection refused (os error 111)",
        "dns error: failed to lookup address of api-7f9c.eu-central-1.elb.example.com:6443",
        "422 Invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch",
        "too old resource version: 18446744073709551615 (18446744073709551616)",
        "uid 3f1c2a9e-8a2b-4f6d-9a57-0c1d2e3f4a5b is gone",
        "GET https://10.0.0.1:6443/api/v1/pods failed",
    ];
    for case in cases {
        assert_eq!(redact(case), case);
    }
}

/// The words of Kubernetes for a user stand for nothing else.
#[test]
fn a_credential_does_not_hide_behind_the_name_of_a_user() {
    for case in [
        "system:Token=hunter2",
        "system:x password: hunter2",
        "xsystem:token:hunter2",
        "\"system:a\",token:hunter2",
    ] {
        assert!(!redact(case).contains("hunter2"), "{}", redact(case));
    }
}

#[test]
fn it_is_one_line_of_bounded_length() {
    assert_eq!(redact("a\n b\u{0}c\r\n"), "a b c");
    let long = redact(&"ä ".repeat(1000));
    assert_eq!(long.chars().count(), LENGTH_MAX + 1);
}

fn names() -> impl Strategy<Value = &'static str> {
    let all: Vec<_> = [&PASSWORDS[..], &NAMES, &ENDINGS].concat();
    proptest::sample::select(all)
}

proptest! {
    /// Whatever a credential is, and whatever is around it, the answer is the same.
    #[test]
    fn what_is_shown_does_not_depend_on_the_credential(
        before in "\\PC{0,40}",
        prefix in "[a-zA-Z_-]{0,4}",
        name in names(),
        sign in proptest::sample::select(vec![":", "=", ": ", "\":\"", "' => '", "\\\":\\\"", "= \""]),
        secrets in ["(\\PC|[\\n\"'&;,=:/@?(){}\\\\ ]){0,40}", "(\\PC|[\\n\"'&;,=:/@?(){}\\\\ ]){0,40}"],
    ) {
        let shown = secrets.map(|secret| redact(&format!("{before} {prefix}{name}{sign}{secret}")));
        prop_assert_eq!(&shown[0], &shown[1]);
    }

    #[test]
    fn what_is_shown_does_not_depend_on_a_login(
        logins in ["([!-~]|[äß]){0,40}", "([!-~]|[äß]){0,40}"],
        hosts in "[a-z]{1,8}",
    ) {
        let shown = logins.map(|login| redact(&format!("GET https://{login}@{hosts}/api failed")));
        prop_assert_eq!(&shown[0], &shown[1]);
    }

    #[test]
    fn a_login_of_two_urls_is_not_shown(urls in "(https?://[a-z:@/?,\"]{0,12}){1,3}") {
        let shown = redact(&format!("{urls}https://me:HUNTER@h/"));
        prop_assert!(!shown.contains("HUNTER"), "{}", shown);
    }
}
