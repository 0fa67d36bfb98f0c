//! Selectors decide as the embedded API server does, whose parser was written apart from them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "kube")]

use std::{fmt::Display, str::FromStr, sync::Mutex, time::Duration};

use bytes::Bytes;
use proptest::prelude::*;
use reflector::{FieldSelector, LabelSelector, Object};
use reflector_apiserver::core::{Core, CoreOptions, Step};
use serde_json::{Value, json};

const LIST: &str = "/api/v1/namespaces/ns/configmaps";

/// ConfigMaps with labels of all sorts.
fn server() -> Core {
    let mut core = Core::new(CoreOptions::default());
    let labels = [
        json!({}),
        json!({"a": ""}),
        json!({"a": "b"}),
        json!({"a": "1", "b": "in"}),
        json!({"a": "11", "in": "a"}),
        json!({"b": "b", "in": "", "n": "a"}),
    ];
    for (i, labels) in labels.iter().enumerate() {
        let metadata = json!({"namespace": "ns", "name": format!("m{i}"), "labels": labels});
        core.create("configmaps", json!({ "metadata": metadata })).unwrap();
    }
    core
}

/// The items that the server lists, or its refusal.
fn list(core: &mut Core, query: &[(&str, &str)]) -> Result<Vec<Value>, Value> {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    let request = http::Request::get(format!("{LIST}?{query}")).body(Bytes::new()).unwrap();
    let id = core.open(Duration::ZERO, request);
    let (mut code, mut body) = (0, Vec::new());
    loop {
        match core.poll(id, Duration::ZERO) {
            Step::Head(head) => code = head.status().as_u16(),
            Step::Data(data) => body.extend_from_slice(&data),
            Step::End => break,
            Step::Wait { .. } => panic!("a list waits for nothing"),
        }
    }
    let answer: Value = serde_json::from_slice(&body).unwrap();
    if code == 200 { Ok(answer["items"].as_array().unwrap().clone()) } else { Err(answer) }
}

/// Both take the selector and select the same, or both refuse it.
fn compare<S: FromStr<Err: Display>>(
    core: &mut Core,
    parameter: &str,
    text: &str,
    matches: impl Fn(&S, &Object<Value>) -> bool,
) -> Result<(), TestCaseError> {
    let selected = list(core, &[(parameter, text)]);
    match (text.parse::<S>(), selected) {
        (Ok(selector), Ok(selected)) => {
            let mut here = list(core, &[]).unwrap();
            here.retain(|item| matches(&selector, &Object::from_json(item.to_string()).unwrap()));
            prop_assert_eq!(here, selected, "{}", text);
        }
        (Err(_), Err(_)) => {}
        // Here any path may be asked for; a resource offers few.
        (Ok(_), Err(refusal)) if refusal["message"].to_string().contains("is not a known field") => {}
        (Ok(_), Err(refusal)) => prop_assert!(false, "only the server refuses `{text}`: {refusal}"),
        (Err(refusal), Ok(_)) => prop_assert!(false, "only the client refuses `{text}`: {refusal}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn label_selectors_are_those_of_the_server(
        chaos in "[abn1=!<>(), ]{0,10}",
        words in "(!|)(a|b|in|n|notin)( |)(=|==|!=|>|<|in|notin|)( |)(\\(|)(,|a|b|1|11|in|,,|\t|-){0,4}(\\)|)",
        second in "(a|b|!in|a=1|b in \\(in,b\\)|a>1|a<12|a!=b)",
    ) {
        static SERVER: Mutex<Option<Core>> = Mutex::new(None);
        let mut core = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let core = core.get_or_insert_with(server);
        for text in [&chaos, &words, &second, &format!("{second},{words}"), &format!("{words},{second}")] {
            compare(core, "labelSelector", text, |s: &LabelSelector, object| s.matches(object.meta()))?;
        }
    }

    #[test]
    fn field_selectors_are_those_of_the_server(
        terms in "((metadata\\.name|metadata\\.namespace)(=|==|!=|)(m1|m2|ns|x|\\\\|,|=|){0,2}(,|)){0,3}",
    ) {
        static SERVER: Mutex<Option<Core>> = Mutex::new(None);
        let mut core = SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let core = core.get_or_insert_with(server);
        compare(core, "fieldSelector", &terms, FieldSelector::matches)?;
    }
}
