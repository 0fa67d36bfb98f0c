//! What is reflected: ConfigMaps, and a type of somebody's own, which is where objects come to be that do not fit.

use std::{borrow::Cow, collections::BTreeMap, fmt::Debug};

use k8s_openapi::{NamespaceResourceScope, api::core::v1::ConfigMap};
use kube::{
    Resource,
    core::{DeserializeGuard, ObjectMeta},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// The namespace of everything.
pub(super) const NAMESPACE: &str = "ns";
const GROUP: &str = "survive.example.com";

/// What an object says.
pub(super) type Data = BTreeMap<String, String>;

/// What the clients can hold.
pub(super) trait Thing:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// What it says; `None` if it does not fit its type.
    fn data(&self) -> Option<Data>;
}

impl Thing for ConfigMap {
    fn data(&self) -> Option<Data> {
        Some(self.data.clone().unwrap_or_default())
    }
}

/// A custom resource.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Widget {
    metadata: ObjectMeta,
    #[serde(default)]
    data: Data,
}

impl Resource for Widget {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Widget".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "widgets".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Thing for Widget {
    fn data(&self) -> Option<Data> {
        Some(self.data.clone())
    }
}

impl<K: Thing> Thing for DeserializeGuard<K> {
    fn data(&self) -> Option<Data> {
        self.0.as_ref().ok()?.data()
    }
}

/// Which of them a scenario is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// ConfigMaps.
    Maps,
    /// Widgets.
    Widgets,
    /// Widgets, which kube-runtime reads as `DeserializeGuard<Widget>`.
    Guarded,
}

impl What {
    /// The plural name, by which the server and its faults know the resource.
    pub(super) fn plural(self) -> &'static str {
        if self == Self::Maps { "configmaps" } else { "widgets" }
    }

    /// An object of this type.
    pub(super) fn object(self, name: &str, data: &Value) -> Value {
        let (version, kind) = if self == Self::Maps {
            ("v1".to_owned(), "ConfigMap")
        } else {
            (format!("{GROUP}/v1"), "Widget")
        };
        json!({
            "apiVersion": version, "kind": kind,
            "metadata": {"namespace": NAMESPACE, "name": name, "labels": {"app": "survive"}},
            "data": data,
        })
    }
}

/// The name of the definition of widgets.
pub(super) fn definition_name() -> String {
    format!("widgets.{GROUP}")
}

/// The definition of widgets, which does not say what `data` is.
pub(super) fn definition() -> Value {
    json!({"metadata": {"name": definition_name()}, "spec": {
        "group": GROUP, "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true}],
    }})
}
