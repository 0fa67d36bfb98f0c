//! A reflector of ConfigMaps over HTTP, against the embedded API server, with faults.

use std::time::Duration;

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use reflector::{
    Builder, Cache, KubeListWatch, Object, Reflector, kube_client,
    protocol::{BackoffOptions, Options, Status},
};
use reflector_apiserver::{ApiServer, Verb, faults::Fault};
use serde_json::{Value, json};

/// Whatever is waited for must come within this time. It is generous: a test that needs it has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The embedded server, with the namespace `ns`.
pub struct Cluster {
    pub server: ApiServer,
}

/// What is reflected here.
pub type Maps = Reflector<DynamicObject>;

impl Cluster {
    /// A server with the ConfigMaps `cm-0` … in the namespace `ns`.
    pub async fn start(maps: usize) -> Self {
        let cluster = Self { server: ApiServer::start().await.unwrap() };
        for i in 0..maps {
            cluster.create(&format!("cm-{i}"));
        }
        cluster
    }

    pub fn fault(&self, fault: Fault) -> &Self {
        self.server.inject(fault.resource("configmaps"));
        self
    }

    pub fn clear_faults(&self) {
        self.server.with_faults(reflector_apiserver::faults::Faults::clear);
    }

    pub fn create(&self, name: &str) {
        self.server.with_core(|core| core.create("configmaps", map(name, "0")).unwrap());
    }

    pub fn update(&self, name: &str, value: &str) {
        self.server.with_core(|core| core.update("configmaps", map(name, value)).unwrap());
    }

    pub fn delete(&self, name: &str) {
        self.server.with_core(|core| core.delete("configmaps", "ns", name).unwrap());
    }

    pub fn client(&self) -> kube::Client {
        kube_client(kube::Config::new(self.server.url().parse().unwrap())).unwrap()
    }

    pub fn source(&self) -> KubeListWatch<DynamicObject> {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "ConfigMap"), "configmaps");
        KubeListWatch::dynamic(self.client(), &resource, Some("ns"))
    }

    /// A reflector with short waits, so that recovery takes milliseconds.
    pub fn builder(&self) -> Builder<DynamicObject, KubeListWatch<DynamicObject>> {
        Reflector::builder(self.source()).seed(1).options(fast)
    }

    pub fn start_reflector(&self) -> Maps {
        self.builder().start()
    }

    /// What the server has, as `name@version uid`.
    pub fn truth(&self) -> Vec<String> {
        let objects = self.server.with_core(|core| core.objects("configmaps").unwrap());
        objects.iter().map(|o| format!("{}@{} {}", o.name, o.revision, o.uid)).collect()
    }

    /// Waits until the copy is the truth.
    pub async fn converge(&self, maps: &Maps) {
        until(maps, |_| copy(maps.cache()) == self.truth()).await;
    }

    /// The requests so far for ConfigMaps, as `list` or `watch` with what matters of the query.
    pub fn requests(&self) -> Vec<String> {
        let of_maps = |r: &reflector_apiserver::LoggedRequest| {
            r.info.as_ref().is_some_and(|info| info.resource == "configmaps")
        };
        self.server.requests().iter().filter(|r| of_maps(r)).map(brief).collect()
    }

    /// How many requests of a verb there were.
    pub fn count(&self, verb: Verb) -> usize {
        let verb = verb.as_str();
        self.requests().iter().filter(|request| request.split(' ').next() == Some(verb)).count()
    }
}

fn brief(request: &reflector_apiserver::LoggedRequest) -> String {
    let query = request.path.split_once('?').map_or("", |(_, query)| query);
    let shown = [
        ("resourceVersion=", "rv="),
        ("sendInitialEvents=true", "initial"),
        ("limit=", "limit="),
        ("continue=", "continue"),
        ("resourceVersionMatch=", "match="),
    ];
    let mut text = request.verb().map(|verb| verb.to_string()).unwrap_or_default();
    for part in query.split('&') {
        for (name, short) in shown {
            if let Some(value) = part.strip_prefix(name) {
                let value = if short == "continue" { "" } else { value };
                text.push_str(&format!(" {short}{value}"));
            }
        }
    }
    text
}

/// Short waits, and pages of two.
pub fn fast(options: &mut Options) {
    options.backoff = BackoffOptions {
        first: Duration::from_millis(20),
        cap: Duration::from_millis(200),
        reset_after: Duration::from_secs(2),
    };
    options.slow_retry = Duration::from_secs(1);
    options.poll_interval = Duration::from_secs(1);
    options.initial_deadline = Duration::from_secs(1);
    options.idle_limit = Duration::from_secs(2);
    options.page_size = Some(2);
}

/// A ConfigMap in the namespace `ns`.
pub fn map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": "ns", "name": name, "labels": { "app": "test" } },
        "data": { "value": value },
    })
}

/// What a cache holds, as `name@version uid`.
pub fn copy<K>(cache: &Cache<K>) -> Vec<String> {
    let line = |o: &Object<K>| format!("{}@{} {}", o.name(), o.version().unwrap(), o.uid());
    cache.snapshot().iter().map(line).collect()
}

/// Waits until the status, or what hangs on it, shows something.
pub async fn until<K: Send + 'static>(
    reflector: &Reflector<K>,
    mut what: impl FnMut(&Status) -> bool,
) -> Status {
    let mut status = reflector.handle().watch_status();
    let wait = status.wait_for(|status| what(status));
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(seen) => seen.expect("the reflector has ended").clone(),
        Err(_) => panic!("it never came; the status is {:#?}", reflector.status()),
    }
}
