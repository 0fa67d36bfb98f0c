//! The operator's levers: seeding and reading the store past the API, and the accidents of a cluster's life.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::Value;

use super::{
    Core, crd,
    json::text_at,
    object::{Object, storage_key},
    registry::{CustomResource, Resource},
    status::Status,
    write::{Author, DeleteOptions, Part},
};

/// Why a lever did not move.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// No resource has this name.
    #[error("no resource is called {0:?}")]
    UnknownResource(String),
    /// The server refuses the write.
    #[error("{message} ({code})")]
    Refused {
        /// The HTTP status that a client would have got.
        code: u16,
        /// The message of the Status.
        message: String,
    },
    /// The state of that revision is not known any more.
    #[error("revision {0} is older than the history that is kept")]
    TooOld(u64),
}

impl From<Box<Status>> for OperatorError {
    fn from(status: Box<Status>) -> Self {
        Self::Refused { code: status.code, message: status.message }
    }
}

/// An object as etcd has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredObject {
    /// The namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// The revision of the last write.
    pub revision: u64,
    /// The JSON as it stands in lists.
    pub body: Bytes,
}

impl StoredObject {
    fn new(object: &Object) -> Self {
        Self::with(object, object.body())
    }

    fn with(object: &Object, body: Bytes) -> Self {
        Self {
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            revision: object.revision(),
            body,
        }
    }
}

/// Resources are named `pods`, `deployments.apps` or `apps/v1/deployments`.
impl Core {
    pub(super) fn named(&self, resource: &str) -> Result<Arc<Resource>, OperatorError> {
        let found = self.registry.by_name(resource).cloned();
        found.ok_or_else(|| OperatorError::UnknownResource(resource.to_owned()))
    }

    fn stored(&self, resource: &Resource, namespace: &str, name: &str) -> Result<Arc<Object>, OperatorError> {
        let namespace = if resource.namespaced { namespace } else { "" };
        let object = self.etcd.get(&resource.storage, &storage_key(namespace, name)).cloned();
        Ok(object.ok_or_else(|| Status::not_found(resource, name))?)
    }

    /// Stores a new object. Unlike a client, the operator may give it a status, a uid, a creation time and so on;
    /// without a namespace it goes to `default`.
    ///
    /// # Errors
    ///
    /// If the resource is unknown, or the object exists or is invalid.
    pub fn create(&mut self, resource: &str, object: Value) -> Result<StoredObject, OperatorError> {
        let resource = self.named(resource)?;
        let namespace = match text_at(&object, &["metadata", "namespace"]) {
            _ if !resource.namespaced => String::new(),
            "" => "default".to_owned(),
            namespace => namespace.to_owned(),
        };
        let Value::Object(mut object) = object else {
            return Err(Status::bad_request("not an object").into());
        };
        object.shift_remove("kind");
        object.shift_remove("apiVersion");
        let object = super::write::to_stored(&resource, object);
        let object = self.create_object(&resource, &namespace, object, Author::Operator)?;
        Ok(StoredObject::new(&object))
    }

    /// Replaces an object, status and all. A resourceVersion in it must be the current one.
    ///
    /// # Errors
    ///
    /// If the resource or the object is unknown, or the version is not the current one.
    pub fn update(&mut self, resource: &str, object: Value) -> Result<StoredObject, OperatorError> {
        let resource = self.named(resource)?;
        let namespace = match text_at(&object, &["metadata", "namespace"]) {
            "" => "default",
            namespace => namespace,
        };
        let old = self.stored(&resource, namespace, text_at(&object, &["metadata", "name"]))?;
        let Value::Object(object) = object else {
            return Err(Status::bad_request("not an object").into());
        };
        let object = super::write::to_stored(&resource, object);
        let new = self.update_object(&resource, &old, object, Part::Main, Author::Operator)?;
        Ok(StoredObject::new(&new))
    }

    /// Deletes an object, at once if no finalizer holds it; returns the revision after that.
    ///
    /// # Errors
    ///
    /// If the resource or the object is unknown.
    pub fn delete(&mut self, resource: &str, namespace: &str, name: &str) -> Result<u64, OperatorError> {
        let resource = self.named(resource)?;
        let object = self.stored(&resource, namespace, name)?;
        self.delete_object(
            &resource,
            &object,
            &DeleteOptions { grace: Some(0), ..DeleteOptions::default() },
        )?;
        Ok(self.etcd.revision())
    }

    /// All objects of a resource in key order: the truth that clients are to arrive at.
    ///
    /// # Errors
    ///
    /// If the resource is unknown.
    pub fn objects(&self, resource: &str) -> Result<Vec<StoredObject>, OperatorError> {
        let resource = self.named(resource)?;
        Ok(self.etcd.objects(&resource.storage).values().map(|object| StoredObject::new(object)).collect())
    }

    /// Like [`Core::objects`], with empty bodies: cheap also where there are very many.
    ///
    /// # Errors
    ///
    /// If the resource is unknown.
    pub fn objects_without_bodies(&self, resource: &str) -> Result<Vec<StoredObject>, OperatorError> {
        let resource = self.named(resource)?;
        let objects = self.etcd.objects(&resource.storage);
        Ok(objects.values().map(|object| StoredObject::with(object, Bytes::new())).collect())
    }

    /// One object as stored.
    ///
    /// # Errors
    ///
    /// If the resource or the object is unknown.
    pub fn object(&self, resource: &str, namespace: &str, name: &str) -> Result<StoredObject, OperatorError> {
        let resource = self.named(resource)?;
        Ok(StoredObject::new(&*self.stored(&resource, namespace, name)?))
    }

    /// How many objects of a resource there are.
    ///
    /// # Errors
    ///
    /// If the resource is unknown.
    pub fn count(&self, resource: &str) -> Result<usize, OperatorError> {
        let resource = self.named(resource)?;
        Ok(self.etcd.space(&resource.storage).map_or(0, |space| space.objects().len()))
    }

    /// Serves a custom resource without a CustomResourceDefinition.
    pub fn register(&mut self, custom: &CustomResource) {
        let resource = Resource::from_custom(custom);
        self.server.begin(&self.etcd, &resource.storage);
        self.registry.add(resource);
    }

    /// Compacts etcd, and lets the server notice it: exact and continued reads of older revisions are answered 410.
    pub fn compact(&mut self, revision: u64) {
        self.etcd.compact(revision);
        self.server.compacted(&self.etcd);
    }

    /// Compacts etcd behind the server's back: what it has snapshots of is still served.
    pub fn compact_unnoticed(&mut self, revision: u64) {
        self.etcd.compact(revision);
    }

    /// Restarts the API server: running watches end, and no revision before the current one can be watched.
    pub fn restart(&mut self, now: Duration) {
        self.advance(now);
        self.server.restart(&self.etcd);
    }

    /// Restores etcd to an older revision, as from a backup: later writes never happened and the counter goes back. The
    /// server starts anew.
    ///
    /// # Errors
    ///
    /// If some resource has changed more often since then than its history holds.
    pub fn rewind(&mut self, revision: u64) -> Result<(), OperatorError> {
        self.etcd.rewind(revision).map_err(|_| OperatorError::TooOld(revision))?;
        self.events.clear();
        self.server.restart(&self.etcd);
        let Ok(definitions) = self.named("customresourcedefinitions") else {
            return Ok(());
        };
        let objects = self.etcd.objects(&definitions.storage);
        let served: Vec<Value> = objects.values().map(|o| Value::Object(o.to_value(&definitions))).collect();
        let storages: Vec<Arc<str>> =
            served.iter().filter_map(|d| crd::resources(d).first().map(|r| r.storage.clone())).collect();
        // Storage names with a uid come from definitions; those registered from Rust stay.
        let gone: Vec<Arc<str>> = self
            .registry
            .all()
            .map(|r| r.storage.clone())
            .filter(|s| s.contains('#') && !storages.contains(s))
            .collect();
        for storage in gone {
            self.registry.remove(&storage);
        }
        for definition in &served {
            self.serve_definition(definition, false);
        }
        Ok(())
    }

    /// Uses up revisions, as writes to other resources would.
    pub fn advance_revision_to(&mut self, revision: u64) {
        self.etcd.advance_to(revision);
    }

    /// Cuts the watch window of a resource: watches from before the current revision are answered 410.
    ///
    /// # Errors
    ///
    /// If the resource is unknown.
    pub fn forget_history(&mut self, resource: &str) -> Result<(), OperatorError> {
        let resource = self.named(resource)?;
        self.server.forget(&self.etcd, &resource.storage);
        Ok(())
    }
}
