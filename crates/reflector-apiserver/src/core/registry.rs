//! The kinds that the server knows: the built-in ones, those registered from Rust and those of
//! CustomResourceDefinitions.

use std::sync::Arc;

use reflector_protobuf::Kind;
use serde_json::Value;

use super::{builtin, json};

/// The verbs of an ordinary resource.
pub(super) const ALL_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// One resource of one version of one API group.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Resource {
    /// The API group, empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind of one object.
    pub kind: String,
    /// The kind of a list.
    pub list_kind: String,
    /// The name in paths.
    pub plural: String,
    /// The name of one, in lower case.
    pub singular: String,
    /// Abbreviations for kubectl.
    pub short_names: Vec<String>,
    /// Groupings for kubectl, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// What can be done with it.
    pub verbs: Vec<&'static str>,
    /// `status`, `scale`.
    pub subresources: Vec<Subresource>,
    /// Whether the API server keeps a watch cache: true for all but events.
    pub cached: bool,
    /// Whether it is a custom resource.
    pub custom: bool,
    /// The name of the space in etcd, shared by the versions of one resource.
    pub(super) storage: Arc<str>,
    pub(super) fields: Vec<Field>,
    pub(super) field_errors: FieldErrors,
    pub(super) columns: Vec<Column>,
    /// The members next to kind, apiVersion and metadata; empty if anything goes.
    pub(super) members: &'static [&'static str],
    pub(super) generation: bool,
    /// What follows the metadata in a bookmark: Go writes the zero values of fields that are never omitted.
    pub(super) zero: &'static str,
    pub(super) warning: Option<&'static str>,
    pub(super) conversion: Conversion,
}

/// A part of an object with a path of its own.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Subresource {
    /// The last part of the path, such as `status`.
    pub name: String,
    /// The group of the kind it speaks, which for `scale` is not the resource's.
    pub group: String,
    /// The version of that kind.
    pub version: String,
    /// The kind it speaks.
    pub kind: String,
    /// What can be done with it.
    pub verbs: Vec<&'static str>,
}

/// What a custom resource is called, to register one from Rust.
#[derive(Debug, Clone, Default)]
pub struct CustomResource {
    /// The API group; never empty for a custom resource.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind of one object.
    pub kind: String,
    /// The name in paths.
    pub plural: String,
    /// Abbreviations for kubectl.
    pub short_names: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether `status` has a path of its own.
    pub status: bool,
    /// Paths that field selectors may use, such as `spec.color`.
    pub selectable_fields: Vec<String>,
}

/// A field that selectors can use, besides the name and the namespace.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) label: String,
    pub(super) path: Vec<String>,
    /// The value of an object that does not have it.
    pub(super) default: &'static str,
}

/// How an unknown field is refused: the types differ in their wording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldErrors {
    Generic,
    NotSupported,
    NotSupportedForKind,
}

/// A printer column of a custom resource.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) format: String,
    pub(super) description: String,
    pub(super) priority: i64,
    pub(super) path: Vec<String>,
}

/// How this version differs from the stored form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversion {
    None,
    /// Stored as core/v1 Event, shown as events.k8s.io/v1.
    Events,
    /// Another version of a custom resource: only apiVersion differs.
    ApiVersion,
}

impl Resource {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods` or `deployments.apps`, as error messages name it.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Its form in protobuf, which custom resources do not have.
    pub(super) fn message(&self) -> Option<Kind> {
        if self.custom { None } else { Kind::find(&self.api_version(), &self.kind) }
    }

    /// Whether the verb is offered.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    pub(super) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// The position of a selectable field; those of every type have the position `usize::MAX`.
    pub(super) fn field_index(&self, label: &str) -> Option<usize> {
        match label {
            "metadata.name" | "metadata.namespace" => Some(usize::MAX),
            _ => self.fields.iter().position(|f| f.label == label),
        }
    }

    pub(super) fn unknown_field(&self, label: &str) -> String {
        match self.field_errors {
            FieldErrors::Generic => format!(
                "\"{label}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            ),
            FieldErrors::NotSupported => format!("field label not supported: {label}"),
            FieldErrors::NotSupportedForKind => {
                format!("field label \"{label}\" not supported for {}", self.kind)
            }
        }
    }

    pub(super) fn field_values(&self, object: &json::Object) -> Box<[Box<str>]> {
        let value = |field: &Field| -> Box<str> {
            let (first, rest) = match field.path.split_first() {
                Some((first, rest)) => (object.get(first), rest),
                None => (None, &[][..]),
            };
            match first.and_then(|v| rest.iter().try_fold(v, |v, name| v.get(name))) {
                Some(Value::String(text)) => text.as_str().into(),
                Some(Value::Bool(flag)) => flag.to_string().into(),
                Some(Value::Number(number)) => number.to_string().into(),
                _ => field.default.into(),
            }
        };
        self.fields.iter().map(value).collect()
    }

    pub(super) fn from_custom(custom: &CustomResource) -> Self {
        let fields = custom
            .selectable_fields
            .iter()
            .map(|path| Field::new(path.trim_start_matches('.'), ""))
            .collect();
        let storage = format!("{}/{}", custom.group, custom.plural).into();
        let mut resource = Self {
            group: custom.group.clone(),
            version: custom.version.clone(),
            kind: custom.kind.clone(),
            list_kind: format!("{}List", custom.kind),
            plural: custom.plural.clone(),
            singular: custom.kind.to_lowercase(),
            short_names: custom.short_names.clone(),
            categories: Vec::new(),
            namespaced: custom.namespaced,
            verbs: ALL_VERBS.to_vec(),
            subresources: Vec::new(),
            cached: true,
            custom: true,
            storage,
            fields,
            field_errors: FieldErrors::NotSupported,
            columns: Vec::new(),
            members: &[],
            generation: true,
            zero: "",
            warning: None,
            conversion: Conversion::None,
        };
        if custom.status {
            resource.add_subresource("status");
        }
        resource
    }

    pub(super) fn add_subresource(&mut self, name: &str) {
        let (group, version, kind) = match name {
            "scale" => ("autoscaling".into(), "v1".into(), "Scale".into()),
            _ => (self.group.clone(), self.version.clone(), self.kind.clone()),
        };
        let verbs = vec!["get", "patch", "update"];
        self.subresources.push(Subresource { name: name.into(), group, version, kind, verbs });
    }
}

impl Field {
    pub(super) fn new(label: &str, default: &'static str) -> Self {
        Self { label: label.into(), path: label.split('.').map(str::to_owned).collect(), default }
    }
}

/// All resources, built-in ones first.
#[derive(Debug, Clone)]
pub struct Registry {
    resources: Vec<Arc<Resource>>,
    built_in: usize,
}

impl Registry {
    pub(super) fn new() -> Self {
        let resources: Vec<_> = builtin::resources().into_iter().map(Arc::new).collect();
        Self { built_in: resources.len(), resources }
    }

    /// All resources, each version on its own.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.iter().map(|r| &**r)
    }

    /// The resource at a path.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        self.find(group, version, plural).map(|r| &**r)
    }

    pub(super) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|r| r.plural == plural && r.group == group && r.version == version)
    }

    /// By `pods`, `deployments`, `deployments.apps` or `apps/v1/deployments`; what is registered first wins.
    pub(super) fn by_name(&self, name: &str) -> Option<&Arc<Resource>> {
        if let Some((group_version, plural)) = name.rsplit_once('/') {
            let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
            return self.find(group, version, plural);
        }
        let (plural, group) = name.split_once('.').map_or((name, None), |(p, g)| (p, Some(g)));
        self.resources.iter().find(|r| {
            r.plural == plural && group.is_none_or(|g| r.group == g) && r.conversion == Conversion::None
        })
    }

    /// Whether paths under this group are answered by built-in resources, which give a Status for what they lack.
    pub(super) fn is_built_in_group(&self, group: &str) -> bool {
        self.resources[..self.built_in].iter().any(|r| r.group == group)
    }

    pub(super) fn add(&mut self, resource: Resource) {
        self.resources.retain(|r| {
            !r.custom
                || r.group != resource.group
                || r.version != resource.version
                || r.plural != resource.plural
        });
        self.resources.push(Arc::new(resource));
    }

    pub(super) fn remove(&mut self, storage: &str) {
        self.resources.retain(|r| !r.custom || &*r.storage != storage);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }
}
