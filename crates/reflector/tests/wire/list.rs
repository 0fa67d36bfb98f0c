//! Lists.

use reflector::{
    Object,
    wire::{Limits, ListCutter, ListItem, TypeMeta, WireError},
};

use crate::common::{GADGETS, Listed, PODS, Shown, every_cut, list, list_chunks};

/// The keys of the items; `!` for an invalid one.
fn keys(listed: &Listed) -> Vec<&str> {
    let mut keys = Vec::new();
    for item in &listed.0 {
        keys.push(match item {
            Shown::Object(_, key, ..) => &**key,
            _ => "!",
        });
    }
    keys
}

#[test]
fn a_list_says_what_it_is() {
    let (items, meta) = list(PODS);
    let meta = meta.unwrap();
    assert_eq!(meta.version.unwrap().to_string(), "40949");
    assert_eq!(meta.continue_token.as_deref(), Some("eyJ2"));
    assert_eq!(meta.remaining, Some(19));
    assert_eq!(meta.types, Some(TypeMeta::new("v1", "Pod")));
    assert_eq!(meta.shard_selector, None);
    assert_eq!(items.len(), 2);
}

#[test]
fn k13_f46_items_get_the_kind_that_the_list_left_out() {
    let (items, _) = list(PODS);
    let source =
        &PODS[PODS.find("[{\"metadata\"").unwrap() + 2..PODS.find(",{\"metadata\":{\"name\":\"b\"").unwrap()];
    assert_eq!(items[0].json(), format!(r#"{{"kind":"Pod","apiVersion":"v1",{source}"#));
    // Only what is missing is written.
    let body = r#"{"kind":"XList","apiVersion":"g/v1","items":[{"kind":"X","metadata":{"name":"a"}},{"apiVersion":"g/v2","metadata":{"name":"b"}}]}"#;
    let (items, _) = list(body);
    assert_eq!(items[0].json(), r#"{"apiVersion":"g/v1","kind":"X","metadata":{"name":"a"}}"#);
    assert_eq!(items[1].json(), r#"{"kind":"X","apiVersion":"g/v2","metadata":{"name":"b"}}"#);
}

#[test]
fn k13_objects_that_have_both_are_kept_byte_by_byte() {
    let (items, meta) = list(GADGETS);
    let start = GADGETS.find("[{").unwrap() + 1;
    assert_eq!(items[0].json(), &GADGETS[start..GADGETS.find("],\"kind\"").unwrap()]);
    let meta = meta.unwrap();
    assert_eq!(meta.types, Some(TypeMeta::new("example.com/v1", "Gadget")));
    assert_eq!(meta.continue_token, None);
}

#[test]
fn k13_the_caller_may_know_better_than_the_list() {
    let body = r#"{"items":[{"metadata":{"name":"a"}}],"kind":"XList","apiVersion":"v1"}"#;
    let (items, _) = list(body);
    assert_eq!(items[0].json(), r#"{"metadata":{"name":"a"}}"#, "nobody knew in time");
    let types = TypeMeta::new("v1", "Quo\"ted");
    let (items, _) = list_chunks([body.as_bytes()], Some(types), Limits::default());
    assert_eq!(items[0].json(), r#"{"kind":"Quo\"ted","apiVersion":"v1","metadata":{"name":"a"}}"#);
}

#[test]
fn f45_cuts_mean_nothing() {
    for body in [PODS, GADGETS] {
        let whole = list(body);
        assert!(whole.1.is_ok());
        every_cut(body.as_bytes(), |chunks| {
            assert_eq!(list_chunks(chunks.iter().copied(), None, Limits::default()), whole);
        });
    }
}

#[test]
fn truncation_at_every_byte_is_noticed() {
    for body in [PODS, GADGETS] {
        let body = body.trim_end();
        let (all, _) = list(body);
        for end in 0..body.len() {
            let (items, meta) = list(&body.as_bytes()[..end]);
            assert!(
                matches!(meta, Err(WireError::Truncated { offset, .. }) if offset == end as u64),
                "{end}: {meta:?}"
            );
            assert_eq!(items, all[..items.len()]);
        }
    }
}

#[test]
fn k4_f43_a_bad_item_leaves_the_others_alone() {
    let secret = "hunter2";
    let bad = [
        (r#"{"metadata":{"namespace":"n"}}"#, "metadata.name", "missing or empty"),
        (r#"{"metadata":{"name":""}}"#, "metadata.name", "missing or empty"),
        (r#"{"metadata":{"name":7}}"#, "metadata.name", "expected a string, found a number"),
        (r#"{"metadata":{"name":["hunter2"]}}"#, "metadata.name", "expected a string, found an array"),
        (
            r#"{"metadata":{"name":"\ud800"}}"#,
            "metadata.name",
            "expected a string, found text that is not valid",
        ),
        (r#"{"metadata":{"name":"x","uid":{"a":[]}}}"#, "metadata.uid", "expected a string, found an object"),
        (
            r#"{"metadata":{"name":"x","resourceVersion":3}}"#,
            "metadata.resourceVersion",
            "expected a string, found a number",
        ),
        (
            r#"{"metadata":{"name":"x","labels":"hunter2"}}"#,
            "metadata.labels",
            "expected an object, found a string",
        ),
        (
            r#"{"metadata":{"name":"x","labels":{"a":true}}}"#,
            "metadata.labels.a",
            "expected a string, found a boolean",
        ),
        (r#"{"metadata":"hunter2"}"#, "metadata", "expected an object, found a string"),
        (r#"{"metadata":null}"#, "metadata", "expected an object, found null"),
        (r#"{"data":"hunter2"}"#, "metadata", "missing"),
        ("{}", "metadata", "missing"),
        (r#""hunter2""#, "", "expected an object, found a string"),
        ("5", "", "expected an object, found a number"),
        (r#"[{"metadata":{"name":"x"}}]"#, "", "expected an object, found an array"),
        ("null", "", "expected an object, found null"),
    ];
    for (item, path, reason) in bad {
        let good = r#"{"metadata":{"name":"good"}}"#;
        let body = format!(r#"{{"kind":"XList","apiVersion":"v1","items":[{good},{item} ,{good}]}}"#);
        let listed = list(&body);
        assert_eq!(keys(&listed), ["good", "!", "good"], "{item}");
        let Shown::Invalid(invalid) = &listed.0[1] else { panic!("{item}") };
        assert_eq!((&*invalid.path, &*invalid.reason), (path, reason), "{item}");
        assert_eq!(invalid.offset as usize, body.find(good).unwrap() + good.len() + 1);
        assert_eq!(invalid.bytes, item.len(), "{item}");
        assert!(
            !invalid.to_string().contains(secret) && !format!("{invalid:?}").contains(secret),
            "{invalid}"
        );
        assert!(listed.1.is_ok());
    }
}

#[test]
fn k4_what_can_be_read_of_a_bad_item_is_told() {
    let body = r#"{"items":[{"metadata":{"name":"x","namespace":"n","resourceVersion":"3","uid":1}}]}"#;
    let (items, _) = list(body);
    let Shown::Invalid(invalid) = &items[0] else { panic!() };
    assert_eq!(invalid.key.as_ref().unwrap().to_string(), "n/x");
    assert_eq!(invalid.version.as_ref().unwrap().to_string(), "3");
    assert_eq!(
        invalid.to_string(),
        "n/x: `metadata.uid`: expected a string, found a number (71 bytes at byte 10)"
    );
}

#[test]
fn k4_text_that_is_not_utf8_is_one_objects_error() {
    let mut body = br#"{"items":[{"metadata":{"name":"x"},"data":"??"},{"metadata":{"name":"y"}}]}"#.to_vec();
    let at = body.iter().position(|&b| b == b'?').unwrap();
    body[at] = 0xc3;
    let (items, meta) = list(&body);
    let Shown::Invalid(invalid) = &items[0] else { panic!() };
    assert_eq!(invalid.reason, format!("not UTF-8 at byte {} of the object", at - 10));
    assert_eq!(invalid.key.as_ref().unwrap().name(), "x");
    assert!(matches!(&items[1], Shown::Object(_, key, ..) if key == "y"));
    assert!(meta.is_ok());
}

#[test]
fn a_body_that_does_not_fit_its_type_is_not_looked_at() {
    #[derive(Debug, serde::Deserialize)]
    struct Typed {
        #[allow(dead_code)]
        spec: u32,
    }
    let mut cutter = ListCutter::<Typed>::new(None, Limits::default());
    let mut items = Vec::new();
    cutter.push(br#"{"items":[{"metadata":{"name":"x"},"spec":"text"}]}"#, &mut items).unwrap();
    let [ListItem::Object(object)] = &items[..] else { panic!() };
    assert_eq!(object.get().unwrap_err().path, "spec");
}

#[test]
fn d31_three_pages_carry_their_tokens() {
    let page = |token: &str, name: &str| {
        format!(
            r#"{{"kind":"XList","apiVersion":"v1","metadata":{{"resourceVersion":"8","continue":"{token}"}},"items":[{{"metadata":{{"name":"{name}"}}}}]}}"#
        )
    };
    let pages = [page("t1", "a"), page("t2", "b"), page("", "c")].map(list);
    let tokens = pages.each_ref().map(|(_, meta)| meta.as_ref().unwrap().continue_token.as_deref());
    assert_eq!(tokens, [Some("t1"), Some("t2"), None]);
    assert_eq!(pages.iter().flat_map(|page| keys(page)).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn d32_empty_version_and_empty_token_are_none() {
    for metadata in [
        r#"{"resourceVersion":"","continue":""}"#,
        r#"{"resourceVersion":null,"continue":null,"remainingItemCount":null,"shardInfo":null}"#,
        "{}",
        "null",
    ] {
        let (_, meta) = list(format!(r#"{{"kind":"XList","metadata":{metadata},"items":[]}}"#));
        let meta = meta.unwrap();
        assert_eq!((meta.version, meta.continue_token, meta.remaining), (None, None, None), "{metadata}");
    }
    let (items, _) = list(r#"{"items":[{"metadata":{"name":"x","resourceVersion":""}}]}"#);
    assert!(matches!(&items[0], Shown::Object(_, _, version, _) if version.is_empty()));
}

#[test]
fn f47_opaque_versions_pass() {
    let (items, meta) = list(
        r#"{"metadata":{"resourceVersion":"b64:x9=="},"items":[{"metadata":{"name":"x","resourceVersion":"WyJh"}}]}"#,
    );
    assert_eq!(meta.unwrap().version.unwrap().to_string(), "b64:x9==");
    assert!(matches!(&items[0], Shown::Object(_, _, version, _) if version == "WyJh"));
}

#[test]
fn shard_selectors_are_kept() {
    let (_, meta) =
        list(r#"{"kind":"XList","metadata":{"shardInfo":{"selector":"shardRange(a)"}},"items":[]}"#);
    assert_eq!(meta.unwrap().shard_selector.as_deref(), Some("shardRange(a)"));
}

#[test]
fn null_and_unusual_items() {
    for body in [
        r#"{"kind":"XList","metadata":{},"items":null}"#,
        " {\n\t\"items\" : [ ] } \r\n",
        // Escaped names are names, and unknown members of any kind are skipped.
        r#"{"\u0069tems":[],"extra":{"items":[{"metadata":{}}],"deep":[[[[]]]]},"n":1e5,"s":"\\\"","b":true}"#,
        // A custom resource may call its list anything.
        r#"{"kind":"Gadgets","items":[]}"#,
    ] {
        let (items, meta) = list(body);
        assert_eq!((items.len(), meta.is_ok()), (0, true), "{body}");
    }
}

/// What has no items is another document, and no empty collection: believing it would delete everything.
#[test]
fn a_document_without_items_is_not_a_list() {
    for body in [r#"{"kind":"APIResourceList","resources":[{}]}"#, r#"{"kind":"XList","metadata":{}}"#, "{}"]
    {
        let (_, meta) = list(body);
        assert!(matches!(meta, Err(WireError::NotAList { .. })), "{body}");
    }
}

#[test]
fn labels_are_sorted_and_names_unescaped() {
    let object = Object::<()>::from_json(
        r#"{"metadata":{"n\u0061me":"\u0061\n","namespace":null,"labels":{"z":"1","a":"\"","z":"2","m":null}}}"#,
    )
    .unwrap();
    assert_eq!(object.key().name(), "a\n");
    assert_eq!(object.labels().iter().collect::<Vec<_>>(), [("a", "\""), ("m", ""), ("z", "2")]);
    assert_eq!(object.label("z"), Some("2"));
}

#[test]
fn of_duplicates_the_last_counts() {
    let (items, _) =
        list(r#"{"items":[{"metadata":{"name":"a","uid":"1"},"metadata":{"name":"b","name":"c"}}]}"#);
    assert!(matches!(&items[0], Shown::Object(_, key, ..) if key == "c"));
}

#[test]
fn one_object_from_json() {
    for (json, reason) in [
        ("", "the JSON ends too early"),
        (r#"{"metadata":{"name":"x"}"#, "the JSON ends too early"),
        (r#"{"metadata":{"name":"x"}}{}"#, "more than one JSON value"),
        ("x", "malformed JSON at byte 0: expected `{`, found `x`"),
    ] {
        assert_eq!(Object::<()>::from_json(json).unwrap_err().reason, reason);
    }
    let object = Object::<()>::from_json(b" {\"metadata\":{\"name\":\"x\"}}\n").unwrap();
    assert_eq!(&object.json().unwrap()[..], br#"{"metadata":{"name":"x"}}"#);
}

#[test]
fn rf26_tables_and_statuses_are_not_lists() {
    let table =
        r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"rows":[]}"#;
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"message":"go\naway","code":200}"#;
    let pod = r#"{"metadata":{"name":"x"},"kind":"Pod","apiVersion":"v1"}"#;
    for (body, message) in [
        (table, "expected a list, found kind Table"),
        (status, "expected a list, found kind Status: go away"),
        (pod, "expected a list, found kind Pod"),
        ("{}", "expected a list, found an object without a kind"),
    ] {
        assert_eq!(list(body).1.unwrap_err().to_string(), message);
    }
}

#[test]
fn malformed_lists_say_where() {
    for (body, message) in [
        ("<html>", "malformed JSON at byte 0: expected `{`, found `<`"),
        ("404 page not found", "malformed JSON at byte 0: expected `{`, found `4`"),
        (r#"{"items":[]} x"#, "malformed JSON at byte 13: expected `{`, found `x`"),
        (r#"{"items":[]}{}"#, "malformed JSON at byte 12: expected nothing after the list"),
        (r#"{"items":[}"#, "malformed JSON at byte 10: expected a value, found `}`"),
        (r#"{"items":[{"a":1]"#, "malformed JSON at byte 16: expected `,` or `}`, found `]`"),
        (r#"{"items":[01]"#, "malformed JSON at byte 11: expected `,` or `]`, found `1`"),
        (r#"{"items":[[1}"#, "malformed JSON at byte 12: expected `,` or `]`, found `}`"),
        (r#"{"items":[{]"#, "malformed JSON at byte 11: expected a member's name or `}`, found `]`"),
        (r#"{"items":[{"a":1,}"#, "malformed JSON at byte 17: expected a member's name, found `}`"),
        (r#"{"items":[1,]"#, "malformed JSON at byte 12: expected a value, found `]`"),
        (r#"{"items":[{"a"}"#, "malformed JSON at byte 14: expected `:`, found `}`"),
        (r#"{"items":[1.]"#, "malformed JSON at byte 12: expected a digit, found `]`"),
        (r#"{"items":[1e+]"#, "malformed JSON at byte 13: expected a digit, found `]`"),
        (r#"{"items":[-]"#, "malformed JSON at byte 11: expected a digit, found `]`"),
        (r#"{"items":[nul]"#, "malformed JSON at byte 13: expected `true`, `false` or `null`, found `]`"),
        (r#"{"items":["\x"#, "malformed JSON at byte 12: expected an escape such as `\\n`, found `x`"),
        (r#"{"items":["\u00g"#, "malformed JSON at byte 15: expected a hexadecimal digit, found `g`"),
        (
            "{\"items\":[\"\n",
            "malformed JSON at byte 11: expected an escape for a control character in a string, found byte 0x0a",
        ),
        (
            r#"{"items":{}}"#,
            "malformed items of the list, which began at byte 9: expected an array, found an object",
        ),
        (
            r#"{"metadata":[]}"#,
            "malformed metadata of the list, which began at byte 12: expected an object, found an array",
        ),
        (
            r#"{"metadata":{"resourceVersion":7}}"#,
            "malformed metadata of the list, which began at byte 12: `metadata.resourceVersion`: expected a string, found a number",
        ),
        ("", "the body ended at byte 0, 0 bytes into an unfinished list"),
    ] {
        every_cut(body.as_bytes(), |chunks| {
            let (_, meta) = list_chunks(chunks.iter().copied(), None, Limits::default());
            assert_eq!(meta.unwrap_err().to_string(), message, "{body}");
        });
    }
}

#[test]
fn items_before_a_fault_are_given_out() {
    let listed = list(r#"{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}},?"#);
    assert_eq!(keys(&listed), ["a", "b"]);
    assert!(matches!(listed.1, Err(WireError::Syntax { offset: 62, .. })), "{:?}", listed.1);
}

#[test]
fn limits_say_what_was_too_large() {
    let body =
        format!(r#"{{"kind":"XList","items":[{{"metadata":{{"name":"x"}},"d":"{}"}}]}}"#, "y".repeat(2000));
    let limits = Limits::default().object_bytes_max(2000);
    every_cut(body.as_bytes(), |chunks| {
        let (items, meta) = list_chunks(chunks.iter().copied(), None, limits);
        let message = "an object at byte 25 is larger than the limit of 2000 bytes (object_bytes_max)";
        assert_eq!((items.len(), meta.unwrap_err().to_string()), (0, message.to_owned()));
    });
    let body = format!(r#"{{"kind":"XList","metadata":{{"continue":"{}"}},"items":[]}}"#, "y".repeat(2000));
    every_cut(body.as_bytes(), |chunks| {
        let (_, meta) = list_chunks(chunks.iter().copied(), None, Limits::default().envelope_bytes_max(1000));
        let message =
            "the list's own metadata at byte 27 is larger than the limit of 1000 bytes (envelope_bytes_max)";
        assert_eq!(meta.unwrap_err().to_string(), message);
    });
    // Of the right size it passes, and unknown members are not kept at all.
    assert!(list_chunks([body.as_bytes()], None, Limits::default().envelope_bytes_max(2100)).1.is_ok());
    let body = format!(r#"{{"items":[],"extra":"{}"}}"#, "y".repeat(2000));
    assert!(list_chunks([body.as_bytes()], None, Limits::default().envelope_bytes_max(100)).1.is_ok());
}

/// The whole list counts, in however many chunks it comes.
#[test]
fn a_list_may_be_as_long_as_its_limit() {
    let length = PODS.len();
    every_cut(PODS.as_bytes(), |chunks| {
        let with = |bytes| {
            let limits = Limits::default().list_bytes_max(bytes);
            list_chunks(chunks.iter().copied(), None, limits).1.map(drop)
        };
        assert_eq!(with(length), Ok(()));
        let (what, name, limit) = ("the list", "list_bytes_max", length - 1);
        assert_eq!(with(limit), Err(WireError::TooLarge { offset: 0, what, name, limit }));
    });
}

#[test]
fn a_nesting_bomb_is_too_deep() {
    let bomb = format!(r#"{{"items":[{{"metadata":{{"name":"x"}},"spec":{}"#, "[".repeat(1 << 20));
    for chunk in [1000, 1 << 21] {
        let (_, meta) = list_chunks(bomb.as_bytes().chunks(chunk), None, Limits::default());
        assert!(matches!(meta, Err(WireError::TooDeep { limit: 10_000, .. })), "{meta:?}");
    }
    // Deeper than serde_json would go is no reason to refuse a list.
    let deep = format!(
        r#"{{"items":[{{"metadata":{{"name":"x"}},"spec":{}{}}}]}}"#,
        "[".repeat(900),
        "]".repeat(900)
    );
    assert!(list(deep).1.is_ok());
}

/// Of the levels that may be open, the last one may be: whatever stands in it, and though nothing does.
#[test]
fn the_limit_of_depth_is_the_same_for_everything() {
    for value in ["{}", "[]", "{ }", r#"{"b":1}"#, "[1]"] {
        // The list, its items, the object, its spec, and the value.
        let body = format!(r#"{{"items":[{{"metadata":{{"name":"x"}},"spec":{{"a":{value}}}}}]}}"#);
        every_cut(body.as_bytes(), |chunks| {
            let with = |levels| {
                list_chunks(chunks.iter().copied(), None, Limits::default().depth_max(levels)).1.map(drop)
            };
            assert_eq!(with(5), Ok(()), "{value}");
            let offset = body.find(value).unwrap() as u64;
            assert_eq!(with(4), Err(WireError::TooDeep { offset, limit: 4 }), "{value}");
        });
    }
}

#[test]
fn a_spent_cutter_stays_spent() {
    let mut cutter = ListCutter::<()>::new(None, Limits::default());
    let mut items = Vec::new();
    let first = cutter.push(b"nonsense", &mut items).unwrap_err();
    assert_eq!(cutter.push(b"{}", &mut items).unwrap_err(), first);
    assert_eq!(cutter.finish().unwrap_err(), first);
}
