//! Selectors: what they take, what they refuse and in which words, and what they select.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use proptest::{
    collection::{btree_map, vec},
    prelude::*,
};
use reflector::{
    FieldSelector, LabelSelector, Object,
    selector::{FieldSelectorError, LabelSelectorError, Operator, Requirement, RequirementError},
};
use serde::de::IgnoredAny;

type Labels = BTreeMap<String, String>;

fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let json = serde_json::json!({"metadata": {"name": "a", "labels": labels}}).to_string();
    let object: Object<IgnoredAny> = Object::from_json(json).unwrap();
    let by_meta = selector.matches(object.meta());
    assert_eq!(by_meta, selector.matches_labels(|key| labels.get(key).map(String::as_str)));
    by_meta
}

#[test]
fn every_operator_selects_as_in_kubernetes() {
    let labels: Labels =
        [("app", "web"), ("n", "5"), ("e", ""), ("in", "in")].map(|(k, v)| (k.into(), v.into())).into();
    let table = [
        ("", true),
        (" ", true),
        ("app=web", true),
        ("app==web", true),
        ("app = web , n=5", true),
        ("app=web,n=6", false),
        ("app!=web", false),
        ("app!=db", true),
        // A label that is absent has no value to be excluded.
        ("missing!=web", true),
        ("missing=", false),
        ("missing notin (web)", true),
        ("missing in (web)", false),
        ("app", true),
        ("!app", false),
        ("! app", false),
        ("!missing", true),
        ("missing", false),
        ("app in (web,db)", true),
        ("app in (db)", false),
        ("app notin (web,db)", false),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("n < 5", false),
        ("app>4", false),
        ("app<4", false),
        ("missing>4", false),
        ("e=", true),
        ("e=,n=5", true),
        ("e in ()", true),
        ("e in (,)", true),
        ("app in (,web)", true),
        ("app in (x,,web)", true),
        ("in in (in)", true),
        ("in=in,!notin", true),
    ];
    for (selector, expected) in table {
        assert_eq!(selects(&selector.parse().unwrap(), &labels), expected, "{selector}");
    }
}

#[test]
fn the_text_is_canonical() {
    let table = [
        ("", ""),
        ("b=1,a=1", "a=1,b=1"),
        ("a==x , a == x", "a=x"),
        ("a in (y , x,y)", "a in (x,y)"),
        ("a in (x)", "a=x"),
        ("a notin (x)", "a!=x"),
        ("a in ()", "a="),
        ("a in (x,)", "a in (,x)"),
        ("! a,b", "!a,b"),
        ("a>1,a<07", "a>1,a<07"),
        ("x.io/a", "x.io/a"),
    ];
    for (text, expected) in table {
        assert_eq!(text.parse::<LabelSelector>().unwrap().to_string(), expected, "{text}");
    }
}

#[test]
fn what_is_no_label_selector_is_told_with_its_place() {
    let table = [
        ("a=b=c", "at byte 3: expected `,` or the end, found `=`"),
        ("a,", "at byte 2: expected the name of a label or `!`, found the end"),
        (",a", "at byte 0: expected the name of a label or `!`, found `,`"),
        ("a in b", "at byte 5: expected `(`, found `b`"),
        ("a in (b", "at byte 7: expected `,` or `)`, found the end"),
        ("a in (b c)", "at byte 8: expected `,` or `)`, found `c`"),
        ("a in (b,,)", "at byte 9: expected a value or `,`, found `)`"),
        ("a in (,,)", "at byte 8: expected a value or `,`, found `)`"),
        ("a in (b,(", "at byte 8: expected a value, `,` or `)`, found `(`"),
        ("=a", "at byte 0: expected the name of a label or `!`, found `=`"),
        ("a b", "at byte 2: expected `=`, `==`, `!=`, `in`, `notin`, `>` or `<`, found `b`"),
        ("!a=b", "at byte 2: expected `,` or the end, found `=`"),
        ("!!a", "at byte 1: expected the name of a label, found `!`"),
        ("a===b", "at byte 3: expected a value, found `=`"),
        ("a!", "at byte 1: expected `=`, `==`, `!=`, `in`, `notin`, `>` or `<`, found `!`"),
        ("a=b,c>x", "at byte 4: `c` is compared with `x`, which is not an integer of 64 bits"),
        (
            "x=1, a=-b",
            "at byte 5: `-b` cannot be a value of the label `a`: it must be empty, or at most 63 ASCII letters, digits, \
             `-`, `_` and `.`, with a letter or digit at both ends",
        ),
        (
            "X/a",
            "at byte 0: `X/a` cannot be the name of a label: the part before the `/` must be a DNS name: at most 253 \
             lower case ASCII letters, digits, `-` and `.`, with a letter or digit at both ends and around each dot",
        ),
        (
            "ü=a",
            "at byte 0: `ü` cannot be the name of a label: the part after an optional `/` must be 1 to 63 ASCII \
             letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
        ),
    ];
    for (selector, expected) in table {
        assert_eq!(selector.parse::<LabelSelector>().unwrap_err().to_string(), expected, "{selector}");
    }
    let error = "a>".parse::<LabelSelector>().unwrap_err();
    assert!(matches!(
        error,
        LabelSelectorError::Requirement { at: 0, source: RequirementError::NotAnInteger { .. } }
    ));
}

#[test]
fn selectors_are_built_and_checked() {
    let built = LabelSelector::everything()
        .not_eq("d", "x")
        .and_then(|s| s.eq("c", ""))
        .and_then(|s| s.exists("b"))
        .and_then(|s| s.does_not_exist("a"))
        .and_then(|s| s.none_of("e", ["y", "x"]))
        .and_then(|s| s.one_of("e", ["z"]))
        .and_then(|s| s.greater_than("f", 3))
        .and_then(|s| s.less_than("f", 9))
        .unwrap();
    assert_eq!(built.to_string(), "!a,b,c=,d!=x,e=z,e notin (x,y),f>3,f<9");
    assert_eq!(built.to_string().parse::<LabelSelector>().unwrap(), built);
    assert_eq!(String::from(built), "!a,b,c=,d!=x,e=z,e notin (x,y),f>3,f<9");
    assert!(LabelSelector::everything().is_everything() && LabelSelector::default().is_everything());
    assert!("".parse::<LabelSelector>().unwrap().is_everything());

    let count = |operator, values: &[&str]| Requirement::new("a", operator, values).unwrap_err().to_string();
    assert_eq!(count(Operator::In, &[]), "`a` has 0 values, but In takes at least one");
    assert_eq!(count(Operator::Exists, &["x"]), "`a` has 1 values, but Exists takes none");
    assert_eq!(count(Operator::LessThan, &["1", "2"]), "`a` has 2 values, but LessThan takes one");
    assert!(matches!(LabelSelector::everything().greater_than("a", -1), Err(RequirementError::Value { .. })));
}

#[test]
fn the_selector_of_an_api_type_is_taken() {
    let expressions = [("b", "In", vec!["x", "y"]), ("c", "NotIn", vec!["x"]), ("d", "Exists", vec![])];
    let selector = LabelSelector::from_match([("a", "1")], expressions).unwrap();
    assert_eq!(selector.to_string(), "a=1,b in (x,y),c!=x,d");
    let none: [(&str, &str); 0] = [];
    let error = LabelSelector::from_match(none, [("a", "Gt", ["1"])]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`Gt`, used with `a`, is none of `In`, `NotIn`, `Exists` and `DoesNotExist`"
    );
}

#[test]
#[cfg(feature = "kube")]
fn the_selector_of_kube_is_taken() {
    use kube::core::{Expression, Selector};
    let expressions = [
        Expression::In("b".into(), ["x".into(), "y".into()].into()),
        Expression::NotIn("c".into(), ["x".into()].into()),
        Expression::Equal("d".into(), "x".into()),
        Expression::NotEqual("e".into(), "x".into()),
        Expression::Exists("f".into()),
        Expression::DoesNotExist("a".into()),
    ];
    let selector = LabelSelector::try_from(Selector::from_iter(expressions)).unwrap();
    assert_eq!(selector.to_string(), "!a,b in (x,y),c!=x,d=x,e!=x,f");
    let unchecked = Selector::from(Expression::Equal("-".into(), "x".into()));
    assert!(matches!(LabelSelector::try_from(unchecked), Err(RequirementError::Key { .. })));
}

const POD: &str = r#"{"metadata":{"namespace":"shop","name":"cart","uid":"u1"},
    "spec":{"nodeName":"n,1","hostNetwork":true,"priority":10,"containers":[{"name":"c"}]},
    "status":{"phase":"Running","message":null}}"#;

#[test]
fn fields_are_compared_as_in_kubernetes() {
    let pod: Object<IgnoredAny> = Object::from_json(POD).unwrap();
    let table = [
        ("", true),
        (",", true),
        ("metadata.name=cart", true),
        ("metadata.name==cart,metadata.namespace=shop", true),
        ("metadata.name!=cart", false),
        ("metadata.namespace=other", false),
        ("metadata.uid=u1", true),
        (r"spec.nodeName=n\,1", true),
        (r"spec.nodeName!=n\,1", false),
        ("spec.hostNetwork=true", true),
        ("spec.priority=10", true),
        ("spec.priority=10.0", false),
        ("status.phase!=Running", false),
        ("status.phase=Running,spec.priority=11", false),
        // What is absent is empty.
        ("status.message=", true),
        ("status.podIP=", true),
        ("status.podIP!=", false),
        ("status.podIP!=x", true),
        ("spec.containers=", false),
        ("spec.containers.name=c", false),
        ("spec!=x", true),
        ("spec=", false),
    ];
    for (selector, expected) in table {
        assert_eq!(selector.parse::<FieldSelector>().unwrap().matches(&pod), expected, "{selector}");
    }
}

#[test]
fn fields_of_an_object_without_a_namespace_or_a_whole_body_do_no_harm() {
    let meta = Object::<IgnoredAny>::from_json(r#"{"metadata":{"name":"a"}}"#).unwrap().meta().clone();
    let broken: Object<IgnoredAny> =
        Object::new(meta, reflector::Encoding::Json, (&b"{\"spec\":{\"a\":\"x\""[..]).into());
    let selects = |text: &str| text.parse::<FieldSelector>().unwrap().matches(&broken);
    assert!(selects("metadata.name=a,metadata.namespace="));
    assert!(selects("spec.a!=x") && !selects("spec.a=x"));
}

#[test]
fn what_is_no_field_selector_is_told_with_its_place() {
    let table = [
        ("foo", "at byte 0: `foo` has none of the operators `=`, `==` and `!=`"),
        ("a=b,foo", "at byte 4: `foo` has none of the operators `=`, `==` and `!=`"),
        (r"a=\x", r"at byte 2: a backslash may only stand before `\`, `,` and `=`"),
        ("a=b\\", r"at byte 3: a backslash may only stand before `\`, `,` and `=`"),
        ("a=b=c", r"at byte 3: `=` in a value must be written `\=`"),
        ("a===b", r"at byte 3: `=` in a value must be written `\=`"),
    ];
    for (selector, expected) in table {
        assert_eq!(selector.parse::<FieldSelector>().unwrap_err().to_string(), expected, "{selector}");
    }
    for path in ["", "a..b", ".a", "a b", "a!b", "ä", r"a\,b"] {
        let text = format!("{path}=x");
        let error = text.parse::<FieldSelector>().unwrap_err();
        assert_eq!(error, FieldSelectorError::Path { path: path.into() }, "{text}");
    }
}

fn key() -> impl Strategy<Value = String> {
    "[abc]|in|notin|x\\.io/a"
}

fn label() -> impl Strategy<Value = String> {
    "[ab0-9]?|1[0-9]|in|notin|a-b"
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let of = |key: String, operator, values: Vec<String>| Requirement::new(&key, operator, values).unwrap();
    prop_oneof![
        (key(), vec(label(), 1..4)).prop_map(move |(k, v)| of(k, Operator::In, v)),
        (key(), vec(label(), 1..4)).prop_map(move |(k, v)| of(k, Operator::NotIn, v)),
        key().prop_map(move |k| of(k, Operator::Exists, vec![])),
        key().prop_map(move |k| of(k, Operator::DoesNotExist, vec![])),
        (key(), "[0-9]{1,2}").prop_map(move |(k, v)| of(k, Operator::GreaterThan, vec![v])),
        (key(), "[0-9]{1,2}").prop_map(move |(k, v)| of(k, Operator::LessThan, vec![v])),
    ]
}

/// The definition, written out.
fn naive(requirement: &Requirement, labels: &Labels) -> bool {
    let value = labels.get(requirement.key());
    let values: Vec<_> = requirement.values().map(String::from).collect();
    let number = |text: &String| text.parse::<i64>().ok();
    let both = value.and_then(number).zip(values.first().and_then(number));
    match requirement.operator() {
        Operator::In => value.is_some_and(|v| values.contains(v)),
        Operator::NotIn => value.is_none_or(|v| !values.contains(v)),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::GreaterThan => both.is_some_and(|(v, bound)| v > bound),
        Operator::LessThan => both.is_some_and(|(v, bound)| v < bound),
    }
}

proptest! {
    #[test]
    fn a_label_selector_reads_back_what_it_writes(requirements in vec(requirement(), 0..5)) {
        let selector: LabelSelector = requirements.into_iter().collect();
        prop_assert_eq!(&selector.to_string().parse::<LabelSelector>().unwrap(), &selector);
    }

    #[test]
    fn labels_are_selected_by_the_definition(
        requirements in vec(requirement(), 0..3),
        labels in btree_map(key(), label(), 0..5),
    ) {
        let expected = requirements.iter().all(|requirement| naive(requirement, &labels));
        let selector: LabelSelector = requirements.into_iter().collect();
        prop_assert_eq!(selects(&selector, &labels), expected, "{}", selector);
    }

    #[test]
    fn a_field_selector_reads_back_what_it_writes(
        terms in vec(("[a-c]{1,2}(\\.[a-c]){0,2}", any::<bool>(), "[a,=!\\\\ \u{e4}]{0,6}"), 0..4),
    ) {
        let mut selector = FieldSelector::everything();
        for (path, equal, value) in terms {
            selector = if equal { selector.eq(&path, &value) } else { selector.not_eq(&path, &value) }.unwrap();
        }
        prop_assert_eq!(&selector.to_string().parse::<FieldSelector>().unwrap(), &selector);
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in ".{0,20}", dense in "[ab=!<>(), \\\\.intoé]{0,20}") {
        for text in [text, dense] {
            if let Ok(selector) = text.parse::<LabelSelector>() {
                prop_assert_eq!(&selector.to_string().parse::<LabelSelector>().unwrap(), &selector);
            }
            if let Ok(selector) = text.parse::<FieldSelector>() {
                prop_assert_eq!(&selector.to_string().parse::<FieldSelector>().unwrap(), &selector);
            }
        }
    }
}

/// The fields that a server makes up are no paths in the JSON. If one of these passes, the docs are wrong.
#[test]
fn fields_that_are_no_paths_are_empty_here() {
    for (body, field) in [
        (r#"{"metadata":{"name":"a"},"source":{"component":"kubelet"}}"#, "source=kubelet"),
        (r#"{"metadata":{"name":"a"},"status":{"succeeded":1}}"#, "status.successful=1"),
    ] {
        let object = Object::<serde_json::Value>::from_json(body).unwrap();
        assert!(!field.parse::<FieldSelector>().unwrap().matches(&object), "{field}");
    }
}

/// A server reads no further than to a NUL byte.
#[test]
fn a_nul_byte_is_an_error() {
    for text in ["a=b\0", "a=b \0zzz,,,"] {
        assert!(text.parse::<LabelSelector>().is_err(), "{text:?}");
    }
}
