//! Scenarios over the whole core with virtual time.
// A `json!` reads better without a borrow in front.
#![allow(clippy::needless_pass_by_value)]

mod crud;
mod definitions;
mod lists;
mod load;
mod protobuf;
mod recordings;
mod watches;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use serde_json::{Value, json};

use super::{Core, CoreOptions, ExchangeId, Step};

/// A core with a clock.
pub(super) struct Rig {
    pub(super) core: Core,
    pub(super) now: Duration,
}

/// A whole answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) headers: HeaderMap,
    pub(super) chunks: Vec<Bytes>,
    /// How long it took.
    pub(super) took: Duration,
}

impl Answer {
    pub(super) fn body(&self) -> String {
        String::from_utf8(self.chunks.concat()).unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body()).unwrap_or_else(|e| panic!("{e}: {}", self.body()))
    }

    pub(super) fn names(&self) -> Vec<String> {
        let list = self.json();
        let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
        items.iter().map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) fn version(&self) -> u64 {
        self.json()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }
}

/// What one look at a watch brought.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Look {
    pub(super) head: Option<u16>,
    pub(super) events: Vec<Value>,
    pub(super) ended: bool,
    pub(super) until: Option<Duration>,
}

impl Look {
    /// Events as `TYPE name@version`.
    pub(super) fn brief(&self) -> Vec<String> {
        let brief = |event: &Value| {
            let kind = event["type"].as_str().unwrap();
            let object = &event["object"];
            match kind {
                "ERROR" => format!("ERROR {}", object["code"]),
                _ => {
                    let metadata = &object["metadata"];
                    let end = metadata["annotations"]["k8s.io/initial-events-end"] == "true";
                    format!(
                        "{kind} {}@{}{}",
                        metadata["name"].as_str().unwrap_or_default(),
                        metadata["resourceVersion"].as_str().unwrap(),
                        if end { " end" } else { "" }
                    )
                }
            }
        };
        self.events.iter().map(brief).collect()
    }
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with(CoreOptions { lenient_namespaces: false, ..CoreOptions::default() })
    }

    pub(super) fn with(options: CoreOptions) -> Self {
        let mut core = Core::new(options);
        core.create("namespaces", json!({"metadata": {"name": "ns"}})).unwrap();
        Self { core, now: Duration::ZERO }
    }

    /// A rig with config maps of these names in `ns`; the first has version 3.
    pub(super) fn with_maps(names: &[&str]) -> Self {
        let mut rig = Self::new();
        for name in names {
            rig.put(name, json!({}));
        }
        rig
    }

    /// Creates a config map in `ns`; returns its version.
    pub(super) fn put(&mut self, name: &str, labels: Value) -> u64 {
        let object =
            json!({"metadata": {"name": name, "namespace": "ns", "labels": labels}, "data": {"k": "1"}});
        self.core.create("configmaps", object).unwrap().revision
    }

    pub(super) fn change(&mut self, name: &str, labels: Value, data: &str) -> u64 {
        let object =
            json!({"metadata": {"name": name, "namespace": "ns", "labels": labels}, "data": {"k": data}});
        self.core.update("configmaps", object).unwrap().revision
    }

    pub(super) fn drop_map(&mut self, name: &str) -> u64 {
        self.core.delete("configmaps", "ns", name).unwrap()
    }

    pub(super) fn open(&mut self, request: Request<Bytes>) -> ExchangeId {
        self.core.open(self.now, request)
    }

    pub(super) fn watch(&mut self, path: &str) -> ExchangeId {
        self.open(Request::get(path).body(Bytes::new()).unwrap())
    }

    /// Takes what is there now.
    pub(super) fn look(&mut self, id: ExchangeId) -> Look {
        let mut look = Look::default();
        loop {
            match self.core.poll(id, self.now) {
                Step::Head(head) => look.head = Some(head.status().as_u16()),
                Step::Data(data) => {
                    assert!(data.ends_with(b"\n"), "an event ends with a newline");
                    look.events.push(serde_json::from_slice(&data).unwrap());
                }
                Step::End => {
                    look.ended = true;
                    return look;
                }
                Step::Wait { until } => {
                    look.until = until;
                    return look;
                }
            }
        }
    }

    /// Lets time pass as the waits ask for it, until the answer is complete.
    pub(super) fn complete(&mut self, request: Request<Bytes>) -> Answer {
        let start = self.now;
        let id = self.open(request);
        let mut answer =
            Answer { code: 0, headers: HeaderMap::new(), chunks: Vec::new(), took: Duration::ZERO };
        loop {
            match self.core.poll(id, self.now) {
                Step::Head(head) => {
                    answer.code = head.status().as_u16();
                    answer.headers = head.headers().clone();
                }
                Step::Data(data) => answer.chunks.push(data),
                Step::Wait { until } => {
                    self.now = until.expect("a wait that nothing ends").max(self.now);
                }
                Step::End => break,
            }
        }
        answer.took = self.now - start;
        answer
    }

    pub(super) fn get(&mut self, path: &str) -> Answer {
        self.complete(Request::get(path).body(Bytes::new()).unwrap())
    }

    pub(super) fn get_as(&mut self, path: &str, accept: &str) -> Answer {
        self.complete(Request::get(path).header("accept", accept).body(Bytes::new()).unwrap())
    }

    pub(super) fn send(&mut self, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        self.complete(request.body(body).unwrap())
    }

    pub(super) fn post(&mut self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, "application/json", body)
    }
}
