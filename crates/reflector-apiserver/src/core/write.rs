//! Writes: create, update and delete with what the server adds, checks and refuses on the way to etcd.

use std::{ops::Bound, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    Core, crd,
    json::{Object as Json, text_at},
    names,
    object::{Object, storage_key},
    registry::{Conversion, Resource},
    status::{Outcome, Status},
    view,
};

/// What a delete did.
#[derive(Debug)]
pub(super) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Arc<Object>),
    /// Finalizers or a grace period keep it: it is marked.
    Marked(Arc<Object>),
}

/// The part of the object that a request may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Status,
}

/// Who writes: a client, or the operator of this server, who may set what the server otherwise decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    Client,
    DryRun,
    Operator,
}

/// `DeleteOptions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DeleteOptions {
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
    pub(super) grace: Option<i64>,
    pub(super) dry_run: bool,
}

fn metadata(value: &mut Json) -> &mut Json {
    let member = value.entry("metadata").or_insert_with(|| Value::Object(Json::new()));
    if !member.is_object() {
        *member = Value::Object(Json::new());
    }
    match member {
        Value::Object(metadata) => metadata,
        _ => unreachable!("made an object above"),
    }
}

fn text<'a>(metadata: &'a Json, name: &str) -> &'a str {
    metadata.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl Core {
    /// The resource in the form that is stored: that of the storage version.
    fn stored_form(&self, resource: &Arc<Resource>) -> Arc<Resource> {
        if resource.conversion == Conversion::None {
            return resource.clone();
        }
        let mut all = self.registry.all();
        let stored = all.find(|r| r.storage == resource.storage && r.conversion == Conversion::None);
        stored.unwrap_or(resource).clone()
    }

    pub(super) fn create_object(
        &mut self,
        resource: &Arc<Resource>,
        namespace: &str,
        value: Json,
        author: Author,
    ) -> Outcome<Arc<Object>> {
        let resource = &self.stored_form(resource);
        let mut value = value;
        self.complete_metadata(resource, namespace, &mut value, author)?;
        if author != Author::Operator {
            if resource.subresource("status").is_some() {
                value.shift_remove("status");
            }
            if resource.group.is_empty() && resource.plural == "pods" {
                value.insert("status".into(), json!({"phase": "Pending", "qosClass": "BestEffort"}));
            }
        }
        complete_members(resource, &mut value);
        if is_definition(resource) {
            crd::check(&Value::Object(value.clone()))?;
        }
        let key = storage_key(namespace, text(metadata(&mut value), "name"));
        if self.etcd.get(&resource.storage, &key).is_some() {
            return Err(Status::already_exists(resource, text(metadata(&mut value), "name")));
        }
        if author == Author::DryRun {
            return Ok(Arc::new(Object::encode(resource, &value, 0)));
        }
        self.require_namespace(resource, namespace)?;
        let object = self.etcd.put(&resource.storage, |revision| Object::encode(resource, &value, revision));
        if is_definition(resource) {
            self.establish(resource, value);
        }
        Ok(object)
    }

    /// Fills in what the server decides, and checks the rest.
    fn complete_metadata(
        &mut self,
        resource: &Resource,
        namespace: &str,
        value: &mut Json,
        author: Author,
    ) -> Outcome<()> {
        let generated = self.random_suffix();
        let (uid, now) = (self.random_uid(), self.timestamp());
        let metadata = metadata(value);
        let given = text(metadata, "namespace");
        if !given.is_empty() && given != namespace {
            let message =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Status::bad_request(message));
        }
        if author != Author::Operator {
            if !text(metadata, "resourceVersion").is_empty() {
                return Err(Status::unexpected("resourceVersion should not be set on objects to be created"));
            }
            for name in
                ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"]
            {
                metadata.shift_remove(name);
            }
        }
        if text(metadata, "name").is_empty() && !text(metadata, "generateName").is_empty() {
            let name = format!("{}{generated}", text(metadata, "generateName"));
            metadata.insert("name".into(), json!(name));
        }
        names::check(resource, text(metadata, "name"))?;
        metadata.shift_remove("resourceVersion");
        if namespace.is_empty() {
            metadata.shift_remove("namespace");
        } else {
            metadata.insert("namespace".into(), json!(namespace));
        }
        metadata.entry("uid").or_insert_with(|| json!(uid));
        metadata.entry("creationTimestamp").or_insert_with(|| json!(now));
        if resource.generation {
            metadata.entry("generation").or_insert_with(|| json!(1));
        }
        Ok(())
    }

    pub(super) fn require_namespace(&mut self, resource: &Resource, namespace: &str) -> Outcome<()> {
        if !resource.namespaced || self.etcd.get("namespaces", namespace).is_some() {
            return Ok(());
        }
        let Some(namespaces) = self.registry.by_name("namespaces").cloned() else {
            return Ok(());
        };
        if !self.options.lenient_namespaces {
            return Err(Status::not_found(&namespaces, namespace));
        }
        let mut value = Json::new();
        value.insert("metadata".into(), json!({"name": namespace}));
        self.create_object(&namespaces, "", value, Author::Client).map(drop)
    }

    /// Stores a new state of `old`, or leaves everything as it is if nothing changes.
    pub(super) fn update_object(
        &mut self,
        resource: &Arc<Resource>,
        old: &Arc<Object>,
        value: Json,
        part: Part,
        author: Author,
    ) -> Outcome<Arc<Object>> {
        let resource = &self.stored_form(resource);
        let mut value = value;
        let before = old.to_value(resource);
        check_identity(resource, old, &mut value)?;
        carry_over(resource, &before, &mut value, part, author);
        complete_members(resource, &mut value);
        value.shift_remove("kind");
        value.shift_remove("apiVersion");
        if is_same(&before, &value) {
            return Ok(old.clone());
        }
        if author == Author::DryRun {
            return Ok(Arc::new(Object::encode(resource, &value, old.revision())));
        }
        let metadata = metadata(&mut value);
        let finalizers = metadata.get("finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty());
        let waits = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) > 0;
        if metadata.contains_key("deletionTimestamp") && !finalizers && !waits {
            // Taking the last finalizer off is the deletion: the answer shows the older version, the event the stored
            // state.
            let last = Object::encode(resource, &value, old.revision());
            self.remove(resource, old);
            return Ok(Arc::new(last));
        }
        let object = self.etcd.put(&resource.storage, |revision| Object::encode(resource, &value, revision));
        if is_definition(resource) {
            self.serve_definition(&Value::Object(object.to_value(resource)), false);
        }
        Ok(object)
    }

    pub(super) fn delete_object(
        &mut self,
        resource: &Arc<Resource>,
        object: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Outcome<Deleted> {
        let resource = &self.stored_form(resource);
        check_preconditions(resource, object, options)?;
        let mut value = object.to_value(resource);
        let pods = resource.group.is_empty() && resource.plural == "pods";
        let grace = match self.options.graceful_pods {
            Some(_) if pods && !text_at(&Value::Object(value.clone()), &["spec", "nodeName"]).is_empty() => {
                let own = value.get("spec").and_then(|s| s["terminationGracePeriodSeconds"].as_i64());
                options.grace.or(own).unwrap_or(30).max(0)
            }
            _ => 0,
        };
        let finalizers =
            metadata(&mut value).get("finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty());
        if grace == 0 && !finalizers {
            if !options.dry_run {
                self.remove(resource, object);
            }
            return Ok(Deleted::Gone(object.clone()));
        }
        let at = self.timestamp_in(Duration::from_secs(grace.unsigned_abs()));
        let metadata = metadata(&mut value);
        let already = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64);
        if already.is_some_and(|old| old <= grace) || options.dry_run {
            return Ok(Deleted::Marked(object.clone()));
        }
        if already.is_none()
            && let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
        {
            metadata.insert("generation".into(), json!(generation + 1));
        }
        metadata.insert("deletionTimestamp".into(), json!(at));
        metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
        let marked = self.etcd.put(&resource.storage, |revision| Object::encode(resource, &value, revision));
        if let Some(kubelet) = self.options.graceful_pods
            && grace > 0
        {
            self.terminating.push((
                self.now.saturating_add(kubelet),
                resource.clone(),
                marked.key().clone(),
                marked.uid().into(),
            ));
        }
        Ok(Deleted::Marked(marked))
    }

    /// Plays the kubelet: pods whose time is up are deleted for good.
    pub(super) fn finish_termination(&mut self) {
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.terminating).into_iter().partition(|(at, ..)| *at <= now);
        self.terminating = later;
        let due: Vec<super::Terminating> = due;
        for (_, resource, key, uid) in due {
            let object = self.etcd.get(&resource.storage, &key).filter(|o| *o.uid() == *uid).cloned();
            if let Some(object) = object {
                let options = DeleteOptions { grace: Some(0), ..DeleteOptions::default() };
                // Finalizers may still hold it; then there is no more to do here.
                let _ = self.delete_object(&resource, &object, &options);
            }
        }
    }

    /// Takes the object out of etcd, with all that depends on it.
    fn remove(&mut self, resource: &Arc<Resource>, object: &Arc<Object>) {
        if resource.group.is_empty() && resource.plural == "namespaces" {
            self.empty_namespace(object.name());
        }
        if is_definition(resource) {
            self.withdraw_definition(&Value::Object(object.to_value(resource)));
        }
        self.etcd.delete(&resource.storage, object.key());
    }

    fn empty_namespace(&mut self, namespace: &str) {
        let prefix = format!("{namespace}/");
        let resources: Vec<_> = self
            .registry
            .all()
            .filter(|r| r.namespaced && r.conversion == Conversion::None)
            .cloned()
            .collect();
        for resource in resources {
            let objects = self.etcd.objects(&resource.storage);
            let inside = objects
                .range::<_, str>((Bound::Included(prefix.as_str()), Bound::Unbounded))
                .take_while(|(key, _)| key.starts_with(&prefix));
            for (key, _) in inside {
                self.etcd.delete(&resource.storage, key);
            }
        }
    }

    /// Accepts a new definition: its resources are served at once, its status follows as a second revision.
    fn establish(&mut self, resource: &Arc<Resource>, definition: Json) {
        let definition = crd::established(definition, &self.timestamp());
        let object =
            self.etcd.put(&resource.storage, |revision| Object::encode(resource, &definition, revision));
        self.serve_definition(&Value::Object(object.to_value(resource)), true);
    }

    pub(super) fn serve_definition(&mut self, definition: &Value, new: bool) {
        let resources = crd::resources(definition);
        let Some(storage) = resources.first().map(|r| r.storage.clone()) else {
            return;
        };
        self.registry.remove(&storage);
        for resource in resources {
            self.registry.add(resource);
        }
        if new {
            self.server.begin(&self.etcd, &storage);
        }
    }

    /// Deletes every custom object, then ends their watches and unlearns the resource.
    fn withdraw_definition(&mut self, definition: &Value) {
        let Some(storage) = crd::resources(definition).first().map(|r| r.storage.clone()) else {
            return;
        };
        for key in self.etcd.objects(&storage).keys() {
            self.etcd.delete(&storage, key);
        }
        self.server.end(&storage);
        // Also watches of what had no objects are to end.
        self.etcd.touch(&storage);
        self.registry.remove(&storage);
    }
}

fn is_definition(resource: &Resource) -> bool {
    resource.group == "apiextensions.k8s.io" && resource.plural == "customresourcedefinitions"
}

/// A namespace or secret gets what the server always adds.
fn complete_members(resource: &Resource, value: &mut Json) {
    if !resource.group.is_empty() {
        return;
    }
    match resource.plural.as_str() {
        "namespaces" => {
            let metadata = metadata(value);
            let name = text(metadata, "name").to_owned();
            if let Value::Object(labels) = metadata.entry("labels").or_insert_with(|| json!({})) {
                labels.entry("kubernetes.io/metadata.name").or_insert_with(|| json!(name));
            }
            value.entry("spec").or_insert_with(|| json!({"finalizers": ["kubernetes"]}));
            value.entry("status").or_insert_with(|| json!({"phase": "Active"}));
        }
        "secrets" => {
            use base64::Engine as _;
            let plain = value.shift_remove("stringData");
            if let Some(Value::Object(plain)) = plain
                && let Value::Object(data) = value.entry("data").or_insert_with(|| json!({}))
            {
                for (name, text) in plain {
                    let encoded = base64::prelude::BASE64_STANDARD.encode(text.as_str().unwrap_or_default());
                    data.insert(name, json!(encoded));
                }
            }
            value.entry("type").or_insert_with(|| json!("Opaque"));
        }
        _ => {}
    }
}

/// The new state must be of the same object, and based on the current version if it names one.
fn check_identity(resource: &Resource, old: &Object, value: &mut Json) -> Outcome<()> {
    let metadata = metadata(value);
    let version = text(metadata, "resourceVersion");
    if !matches!(version, "" | "0") && version != old.revision().to_string() {
        return Err(Status::modified(resource, old.name()));
    }
    let uid = text(metadata, "uid");
    if !uid.is_empty() && uid != old.uid() {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", old.uid());
        return Err(Status::conflict(resource, old.name(), &why));
    }
    Ok(())
}

/// What an update cannot change comes from the old state.
fn carry_over(resource: &Resource, before: &Json, value: &mut Json, part: Part, author: Author) {
    let has_status = resource.subresource("status").is_some();
    match part {
        Part::Status => {
            let (new_metadata, status) = (value.shift_remove("metadata"), value.shift_remove("status"));
            *value = before.clone();
            match status {
                Some(status) => drop(value.insert("status".into(), status)),
                None => drop(value.shift_remove("status")),
            }
            if let Some(metadata) = new_metadata.filter(|_| !resource.custom) {
                value.insert("metadata".into(), metadata);
            }
        }
        Part::Main if has_status && author != Author::Operator => match before.get("status") {
            Some(status) => drop(value.insert("status".into(), status.clone())),
            None => drop(value.shift_remove("status")),
        },
        Part::Main => {}
    }
    let empty = Json::new();
    let old = before.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let metadata = metadata(value);
    for name in [
        "name",
        "namespace",
        "generateName",
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
    ] {
        match old.get(name) {
            Some(member) => drop(metadata.insert(name.into(), member.clone())),
            None => drop(metadata.shift_remove(name)),
        }
    }
    let differs = |name: &String| !matches!(name.as_str(), "kind" | "apiVersion" | "metadata" | "status");
    let members = |object: &Json| {
        object.iter().filter(|(n, _)| differs(n)).map(|(n, v)| (n.clone(), v.clone())).collect()
    };
    let (spec_before, spec_after): (Json, Json) = (members(before), members(value));
    if resource.generation && spec_before != spec_after {
        let generation = old.get("generation").and_then(Value::as_i64).unwrap_or(0) + 1;
        self::metadata(value).insert("generation".into(), json!(generation));
    }
}

/// Whether a write would change nothing: then there is no revision and no event.
fn is_same(before: &Json, value: &Json) -> bool {
    let members =
        |object: &Json| object.keys().filter(|n| !matches!(n.as_str(), "kind" | "apiVersion")).count();
    members(before) == members(value) && value.iter().all(|(name, member)| before.get(name) == Some(member))
}

fn check_preconditions(resource: &Resource, object: &Object, options: &DeleteOptions) -> Outcome<()> {
    let conflict = |why: String| {
        let name = object.name();
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.kind);
        let details =
            super::status::Details { name: name.into(), kind: resource.kind.clone(), ..Default::default() };
        Err(Status::new(409, "Conflict", message).with(details))
    };
    if let Some(uid) = options.uid.as_ref().filter(|uid| **uid != *object.uid()) {
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            object.uid()
        ));
    }
    let current = object.revision().to_string();
    if let Some(version) = options.version.as_ref().filter(|version| **version != current) {
        return conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
             ({current}). The object might have been modified"
        ));
    }
    Ok(())
}

/// From the version of the request to the stored one.
pub(super) fn to_stored(resource: &Resource, value: Json) -> Json {
    view::to_stored(resource, value)
}
