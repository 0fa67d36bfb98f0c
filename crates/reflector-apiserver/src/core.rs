//! Stand-in for the core while the front is being built.
#![allow(missing_docs)]
use std::{collections::HashMap, time::Duration};

use bytes::Bytes;

#[derive(Debug, Clone, Default)]
pub struct CoreOptions {
    pub epoch: jiff::Timestamp,
    pub seed: u64,
    pub first_revision: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Resource {
    pub group: String, pub version: String, pub kind: String, pub plural: String, pub singular: String,
    pub short_names: Vec<String>, pub categories: Vec<String>, pub namespaced: bool, pub verbs: Vec<&'static str>,
    pub subresources: Vec<Subresource>,
}
#[derive(Debug, Clone, Default)]
pub struct Subresource { pub name: String, pub group: String, pub version: String, pub kind: String, pub verbs: Vec<&'static str> }
#[derive(Debug, Clone, Default)]
pub struct Registry { resources: Vec<Resource> }
impl Registry { pub fn resources(&self) -> impl Iterator<Item = &Resource> { self.resources.iter() } }

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId(u64);

#[derive(Debug)]
pub enum Step {
    Head(http::Response<()>),
    Data(Bytes),
    End,
    Wait { until: Option<Duration> },
}

#[derive(Debug)]
struct Open {
    watch: bool,
    head: bool,
    sent: usize,
    listed: bool,
}

#[derive(Debug)]
pub struct Core {
    options: CoreOptions,
    events: Vec<Bytes>,
    open: HashMap<ExchangeId, Open>,
    next: u64,
    registry: Registry,
}

impl Core {
    pub fn registry(&self) -> &Registry { &self.registry }
    pub fn new(options: CoreOptions) -> Self {
        Self {
            options,
            events: Vec::new(),
            open: HashMap::new(),
            next: 0,
            registry: Registry::default(),
        }
    }
    pub fn revision(&self) -> u64 {
        self.options.first_revision + self.events.len() as u64
    }
    pub fn create(&mut self, _resource: &str, json: &str) {
        self.events.push(Bytes::from(format!(
            "{{\"type\":\"ADDED\",\"object\":{json}}}\n"
        )));
    }
    pub fn forget_history(&mut self, _resource: &str) {}
    pub fn compact(&mut self, _rev: u64) {}
    pub fn restart(&mut self, _now: Duration) {}
    pub fn rewind(&mut self, _rev: u64) {}
    pub fn open(&mut self, _now: Duration, request: http::Request<Bytes>) -> ExchangeId {
        self.next += 1;
        let id = ExchangeId(self.next);
        let watch = request
            .uri()
            .query()
            .is_some_and(|q| q.contains("watch=true"));
        self.open.insert(
            id,
            Open {
                watch,
                head: false,
                sent: 0,
                listed: false,
            },
        );
        id
    }
    pub fn poll(&mut self, id: ExchangeId, _now: Duration) -> Step {
        let Some(open) = self.open.get_mut(&id) else {
            return Step::End;
        };
        if !open.head {
            open.head = true;
            let mut head = http::Response::new(());
            head.headers_mut().insert(
                "content-type",
                http::HeaderValue::from_static("application/json"),
            );
            return Step::Head(head);
        }
        if open.watch {
            if let Some(event) = self.events.get(open.sent) {
                open.sent += 1;
                return Step::Data(event.clone());
            }
            return Step::Wait { until: None };
        }
        if open.listed {
            return Step::End;
        }
        open.listed = true;
        let items: Vec<String> = self
            .events
            .iter()
            .map(|e| String::from_utf8_lossy(&e[25..e.len() - 2]).into_owned())
            .collect();
        Step::Data(Bytes::from(format!(
            "{{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{}\"}},\"items\":[{}]}}\n",
            self.options.first_revision + self.events.len() as u64,
            items.join(",")
        )))
    }
    pub fn close(&mut self, id: ExchangeId) {
        self.open.remove(&id);
    }
}
