//! Continue tokens of the embedded API server.

use std::{cell::RefCell, str, time::Duration};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use reflector_apiserver::core::{Core, CoreOptions, Step};
use serde_json::{Value, json};

use crate::control::Control;

/// A server with a few objects.
pub(crate) struct Server(Core);

impl Server {
    pub(crate) fn new() -> Self {
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
            for namespace in ["ns", "other"] {
                let metadata = json!({"namespace": namespace, "name": format!("m{i}"), "labels": labels});
                core.create("configmaps", json!({ "metadata": metadata })).unwrap();
            }
        }
        Self(core)
    }

    /// The list that the server answers, or its refusal.
    pub(crate) fn list(&mut self, query: &[(&str, &str)]) -> Result<Value, Value> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        let path = format!("/api/v1/namespaces/ns/configmaps?{query}");
        let Ok(request) = http::Request::get(path).body(Bytes::new()) else {
            // Longer than any URI may be.
            return Err(json!({"code": 400, "message": "is not a known field"}));
        };
        let id = self.0.open(Duration::ZERO, request);
        let (mut code, mut body) = (0, Vec::new());
        loop {
            match self.0.poll(id, Duration::ZERO) {
                Step::Head(head) => code = head.status().as_u16(),
                Step::Data(data) => body.extend_from_slice(&data),
                Step::End => break,
                Step::Wait { .. } => {
                    self.0.close(id);
                    return Err(json!({"code": 504}));
                }
            }
        }
        let answer: Value = serde_json::from_slice(&body).expect("an answer is JSON");
        match code {
            200 => Ok(answer),
            400..500 => Err(answer),
            _ => panic!("{code}: {answer}"),
        }
    }
}

/// Any text, or any bytes in base64, as the token of a page: it is refused, or names a page of this collection, from which
/// the tokens lead to the end.
pub(crate) fn continue_token(input: &[u8]) {
    thread_local! {
        static SERVER: RefCell<Server> = RefCell::new(Server::new());
    }
    let Some((control, bytes)) = Control::split(input) else { return };
    let text = match str::from_utf8(bytes) {
        Ok(text) if !control.chose(0) => text.to_owned(),
        _ => BASE64_URL_SAFE_NO_PAD.encode(bytes),
    };
    reflector_apiserver::core::check_continue_token(&text);
    SERVER.with_borrow_mut(|server| {
        let mut token = text.clone();
        let mut seen: Vec<String> = Vec::new();
        loop {
            let page = match server.list(&[("limit", "2"), ("continue", &token)]) {
                Ok(page) => page,
                Err(refusal) => {
                    assert!(seen.is_empty(), "the server refuses its own token {token}: {refusal}");
                    assert!(matches!(refusal["code"].as_u64(), Some(400 | 410 | 504)), "{refusal}");
                    return;
                }
            };
            for item in page["items"].as_array().unwrap() {
                assert_eq!(item["metadata"]["namespace"], "ns", "{text} climbs out of its namespace");
                let name = item["metadata"]["name"].as_str().unwrap().to_owned();
                assert!(seen.last().is_none_or(|last| *last < name), "{name} comes again");
                seen.push(name);
            }
            match page["metadata"]["continue"].as_str().unwrap_or_default() {
                "" => break,
                next => token = next.to_owned(),
            }
        }
        assert!(seen.len() <= 6, "{seen:?}");
    });
}
