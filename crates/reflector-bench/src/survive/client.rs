//! The clients, each as its documentation recommends and with its defaults.

use std::{
    panic,
    sync::{Arc, Mutex, PoisonError},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, ResourceExt,
    core::DeserializeGuard,
    runtime::{WatchStreamExt, reflector as peer, watcher},
};
use reflector::{Control, KubeListWatch, Reflector, kube_client};
use tokio::task::JoinHandle;

use super::{
    judge::{Collection, Held},
    things::{NAMESPACE, Thing, What, Widget},
};
use crate::Failure;

/// Who is in the fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// reflector.
    Reflector,
    /// kube-runtime's watcher and store, by default: pages of a list.
    Kube,
    /// The same with streaming lists.
    KubeStreaming,
}

impl Who {
    pub(super) const ALL: [Self; 3] = [Self::Reflector, Self::Kube, Self::KubeStreaming];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reflector => "reflector",
            Self::Kube => "kube-runtime",
            Self::KubeStreaming => "kube-runtime, streaming",
        }
    }
}

/// What the user has been told of errors.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pub(super) count: u64,
    pub(super) last: Option<String>,
}

/// A client that runs.
pub(super) struct Running {
    look: Box<dyn Fn() -> Collection>,
    told: Arc<Mutex<Told>>,
    /// Ends only if the client does.
    task: JoinHandle<()>,
}

impl Running {
    pub(super) fn start(who: Who, what: What, url: &str) -> Result<Self, Failure> {
        let config = Config::new(url.parse()?);
        match (who, what) {
            (Who::Reflector, What::Maps) => ours::<ConfigMap>(config),
            (Who::Reflector, _) => ours::<Widget>(config),
            (_, What::Maps) => theirs::<ConfigMap>(who, config),
            (_, What::Widgets) => theirs::<Widget>(who, config),
            (_, What::Guarded) => theirs::<DeserializeGuard<Widget>>(who, config),
        }
    }

    /// What it holds.
    pub(super) fn look(&self) -> Collection {
        (self.look)()
    }

    pub(super) fn told(&self) -> Told {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Ends it; says how it ended if it has done so by itself.
    pub(super) async fn end(self) -> Option<&'static str> {
        if !self.task.is_finished() {
            self.task.abort();
            return None;
        }
        Some(if self.task.await.is_ok_and(|()| true) { "ended" } else { "panicked" })
    }
}

fn tell(told: &Mutex<Told>, error: &dyn std::fmt::Display) {
    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
    told.count += 1;
    told.last = Some(error.to_string());
}

fn ours<K: Thing>(config: Config) -> Result<Running, Failure> {
    let told = Arc::<Mutex<Told>>::default();
    let teller = Arc::clone(&told);
    let source = KubeListWatch::<K>::namespaced(kube_client(config)?, NAMESPACE);
    let reflector = Reflector::builder(source)
        .on_error(move |report| {
            tell(&teller, report);
            Control::Continue
        })
        .start();
    let cache = reflector.cache().clone();
    let look = move || {
        let objects = &cache.snapshot();
        let held = |object: &reflector::Object<K>| Held {
            uid: object.uid().to_string(),
            version: object.version().map(ToString::to_string).unwrap_or_default(),
            data: object.get().ok().and_then(|object| object.data()),
        };
        objects.into_iter().map(|object| (object.name().to_owned(), held(object))).collect()
    };
    let task = tokio::spawn(async move {
        let mut status = reflector.handle().watch_status();
        // The sender lives in the reflector's task.
        while status.changed().await.is_ok() {}
        // A panic of that task is passed on.
        reflector.stop().await;
    });
    Ok(Running { look: Box::new(look), told, task })
}

fn theirs<K: Thing>(who: Who, config: Config) -> Result<Running, Failure> {
    let settings = match who {
        Who::KubeStreaming => watcher::Config::default().streaming_lists(),
        _ => watcher::Config::default(),
    };
    let api = Api::<K>::namespaced(Client::try_from(config)?, NAMESPACE);
    let (reader, writer) = peer::store();
    let events = peer::reflector(writer, watcher(api, settings)).default_backoff();
    let told = Arc::<Mutex<Told>>::default();
    let teller = Arc::clone(&told);
    let task = tokio::spawn(async move {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            if let Err(error) = event {
                tell(&teller, &error);
            }
        }
    });
    let look = move || {
        let held = |object: &K| Held {
            uid: object.uid().unwrap_or_default(),
            version: object.resource_version().unwrap_or_default(),
            data: object.data(),
        };
        reader.state().iter().map(|object| (object.name_any(), held(object))).collect()
    };
    Ok(Running { look: Box::new(look), told, task })
}

/// Panics are counted and not shown: the table says who had one.
pub(super) fn quiet_panics() {
    panic::set_hook(Box::new(|_| {}));
}
