//! From a request to an exchange: the stages of the pipeline in the order in which kube-apiserver refuses.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, header};
use serde_json::{Value, json};

use super::{
    Core,
    accept::{Format, Media, Wishes},
    exchange::{Exchange, Read, ReadKind, Reply, add_warning, head},
    json::{Object as Json, text_at},
    list::{Plan, Scan, Scope},
    object::{Object, storage_key},
    patch::PatchType,
    protobuf,
    query::{Query, parse_version},
    registry::Resource,
    route::{self, Target},
    scale,
    status::{Details, Outcome, Status},
    validate,
    view::View,
    watch::Start,
    write::{Author, DeleteOptions, Deleted, Part, to_stored},
};

/// The largest request body.
const BODY_MAX: usize = 3 * 1024 * 1024;

const PROTOBUF: &str = Format::Protobuf.content_type(false);

/// A routed request.
struct Call {
    target: Target,
    query: Query,
    wishes: Wishes,
    media: Media,
    headers: HeaderMap,
    body: Bytes,
}

impl Call {
    fn content_type(&self) -> &str {
        self.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    fn author(&self) -> Author {
        if self.query.is_dry_run() { Author::DryRun } else { Author::Client }
    }

    fn part(&self) -> Part {
        if self.target.subresource.as_deref() == Some("status") { Part::Status } else { Part::Main }
    }

    fn is_scale(&self) -> bool {
        self.target.subresource.as_deref() == Some("scale")
    }

    /// The body as an object of the resource, without kind and apiVersion.
    fn object(&self) -> Outcome<Json> {
        let resource = &self.target.resource;
        let json = match self.content_type().split(';').next().unwrap_or_default().trim() {
            "" | "application/json" => Cow::Borrowed(&*self.body),
            PROTOBUF if !resource.custom => Cow::Owned(protobuf::to_json(&self.body, resource.message())?),
            _ => {
                let message = "the body of the request was in an unknown format - accepted media types include: \
                               application/json, application/yaml, application/vnd.kubernetes.protobuf";
                return Err(Status::new(415, "UnsupportedMediaType", message));
            }
        };
        let value: Value = serde_json::from_slice(&json).map_err(|e| {
            let why = if e.is_eof() { "unexpected end of JSON input".to_owned() } else { e.to_string() };
            let text = String::from_utf8_lossy(&self.body[..self.body.len().min(512)]).into_owned();
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
                 error: {why} ({text})",
                resource.kind
            ))
        })?;
        let Value::Object(mut object) = value else {
            return Err(Status::bad_request(format!("the body is not a {}", resource.kind)));
        };
        if !self.is_scale() {
            check_kind(resource, &mut object)?;
        }
        Ok(object)
    }
}

fn check_kind(resource: &Resource, object: &mut Json) -> Outcome<()> {
    let mut take = |name: &str| match object.shift_remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (kind, version) = (take("kind"), take("apiVersion"));
    let expected = resource.api_version();
    if !version.is_empty() && version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(Status::bad_request(format!(
            "{kind} in version \"{expected}\" cannot be handled as a {}: no kind \"{kind}\" is expected here",
            resource.kind
        )));
    }
    Ok(())
}

impl Core {
    pub(super) fn handle(&mut self, request: Request<Bytes>) -> Exchange {
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let wishes = Wishes::new(&parts.headers, &query);
        let path = parts.uri.path();
        let outcome = self.dispatch(&parts.method, path, query, wishes.clone(), parts.headers, body);
        outcome.unwrap_or_else(|status| {
            let mut reply = Reply::refusal(&status, &wishes);
            // Refusals of a deprecated resource warn like its answers.
            let target = route::route(path, &self.registry).ok();
            if let (Some(head), Some(text)) = (&mut reply.head, target.and_then(|t| t.resource.warning)) {
                add_warning(head, text);
            }
            Exchange::Reply(reply)
        })
    }

    fn dispatch(
        &mut self,
        method: &Method,
        path: &str,
        query: Query,
        wishes: Wishes,
        headers: HeaderMap,
        body: Bytes,
    ) -> Outcome<Exchange> {
        let timeout = if query.is_set("watch") { std::time::Duration::MAX } else { query.timeout()? };
        let target = route::route(path, &self.registry)?;
        let resource = target.resource.clone();
        let verb = verb(method, &target)?;
        if verb == Verb::Patch {
            let content_type =
                headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
            PatchType::new(content_type, resource.custom)?;
        }
        let is_list = verb == Verb::List;
        if !resource.custom {
            wishes.check_route(is_list)?;
        }
        let watching = is_list && (target.watch || query.is_set("watch"));
        if watching && !resource.can("watch") {
            return Err(Status::no_watch(&resource));
        }
        let media = wishes.negotiate(&resource, watching)?;
        if body.len() > BODY_MAX {
            let message = format!("Request entity too large: limit is {BODY_MAX}");
            return Err(Status::new(413, "RequestEntityTooLarge", message));
        }
        let call = Call { target, query, wishes, media, headers, body };
        // A deadline shorter than any real answer takes is over before it began.
        if timeout < std::time::Duration::from_millis(1) {
            return Err(Status::deadline());
        }
        match verb {
            Verb::List => self.handle_list(call, timeout),
            Verb::Get => self.handle_get(call, timeout),
            Verb::Create => self.handle_create(&call).map(Exchange::Reply),
            Verb::Update => self.handle_update(&call).map(Exchange::Reply),
            Verb::Patch => self.handle_patch(&call).map(Exchange::Reply),
            Verb::Delete => self.handle_delete(&call).map(Exchange::Reply),
            Verb::DeleteCollection => self.handle_delete_collection(&call).map(Exchange::Reply),
        }
    }

    fn handle_list(&mut self, call: Call, timeout: std::time::Duration) -> Outcome<Exchange> {
        let Call { target, query, wishes, media, .. } = call;
        let mut options = query.list_options()?;
        options.watch |= target.watch;
        if let Some(name) = &target.name {
            options.fields = options.fields.and_name(name);
        }
        if options.watch {
            validate::default_watch(&mut options);
        }
        validate::check(&options)?;
        options.fields.check(&target.resource)?;
        let kind = if options.watch {
            let start = Start::new(&options)?;
            ReadKind::Watch { options: Box::new(options), start }
        } else {
            let plan = Plan::new(&options, target.resource.cached)?;
            ReadKind::List { options: Box::new(options), plan }
        };
        let include = query.get("includeObject").map(str::to_owned);
        Ok(self.read(Read { target, wishes, include, media, kind }, timeout))
    }

    fn handle_get(&mut self, call: Call, timeout: std::time::Duration) -> Outcome<Exchange> {
        let Call { target, query, wishes, media, .. } = call;
        let version = match query.get("resourceVersion") {
            None | Some("") => 0,
            Some(text) => parse_version(text).map_err(Status::unexpected)?,
        };
        let name = target.name.clone().unwrap_or_default();
        let include = query.get("includeObject").map(str::to_owned);
        Ok(self.read(Read { target, wishes, include, media, kind: ReadKind::Get { name, version } }, timeout))
    }

    fn handle_create(&mut self, call: &Call) -> Outcome<Reply> {
        let resource = &call.target.resource;
        let mut object = call.object()?;
        let warnings = prune(resource, &mut object, call.query.get("fieldValidation"))?;
        let object = to_stored(resource, object);
        let object = self.create_object(resource, &call.target.namespace, object, call.author())?;
        self.reply(call, 201, &object, &warnings)
    }

    fn handle_update(&mut self, call: &Call) -> Outcome<Reply> {
        let resource = &call.target.resource;
        let old = self.existing(call)?;
        let mut object = call.object()?;
        if call.is_scale() {
            let object = scale::apply(old.to_value(resource), &Value::Object(object))?;
            let new = self.update_object(resource, &old, object, Part::Main, call.author())?;
            return scale::reply(resource, &new, call.media);
        }
        let value = Value::Object(object.clone());
        check_name(call, &value)?;
        let warnings = prune(resource, &mut object, call.query.get("fieldValidation"))?;
        let object = to_stored(resource, object);
        let new = self.update_object(resource, &old, object, call.part(), call.author())?;
        self.reply(call, 200, &new, &warnings)
    }

    fn handle_patch(&mut self, call: &Call) -> Outcome<Reply> {
        let resource = &call.target.resource;
        let kind = PatchType::new(call.content_type(), resource.custom)?;
        let patch: Value = serde_json::from_slice(&call.body).map_err(|e| {
            if kind == PatchType::Apply {
                let message = "apply patches are understood as JSON only";
                return Status::new(415, "UnsupportedMediaType", message);
            }
            Status::bad_request(format!("error decoding patch: {e}"))
        })?;
        let old = match self.existing(call) {
            Err(status) if status.code == 404 && kind == PatchType::Apply => {
                return self.apply_new(call, patch);
            }
            found => found?,
        };
        if call.is_scale() {
            let object = scale::apply(old.to_value(resource), &patch)?;
            let new = self.update_object(resource, &old, object, Part::Main, call.author())?;
            return scale::reply(resource, &new, call.media);
        }
        let mut object = kind.apply(old.to_value(resource), &patch, resource.custom)?;
        check_name(call, &Value::Object(object.clone()))?;
        check_kind(resource, &mut object)?;
        let warnings = prune(resource, &mut object, call.query.get("fieldValidation"))?;
        if text_at(&patch, &["metadata", "resourceVersion"]).is_empty()
            && let Some(Value::Object(metadata)) = object.get_mut("metadata")
        {
            metadata.shift_remove("resourceVersion");
        }
        let object = to_stored(resource, object);
        let new = self.update_object(resource, &old, object, call.part(), call.author())?;
        self.reply(call, 200, &new, &warnings)
    }

    /// Server-side apply of what does not exist yet.
    fn apply_new(&mut self, call: &Call, patch: Value) -> Outcome<Reply> {
        let resource = &call.target.resource;
        let Value::Object(mut object) = patch else {
            return Err(Status::bad_request("an apply patch is an object"));
        };
        check_kind(resource, &mut object)?;
        match object.entry("metadata").or_insert_with(|| json!({})) {
            Value::Object(metadata) => drop(metadata.insert("name".into(), json!(call.name()))),
            _ => return Err(Status::bad_request("metadata is not an object")),
        }
        let warnings = prune(resource, &mut object, call.query.get("fieldValidation"))?;
        let object = to_stored(resource, object);
        let object = self.create_object(resource, &call.target.namespace, object, call.author())?;
        self.reply(call, 201, &object, &warnings)
    }

    fn handle_delete(&mut self, call: &Call) -> Outcome<Reply> {
        let resource = &call.target.resource;
        let object = self.existing(call)?;
        let options = delete_options(call)?;
        let deleted = self.delete_object(resource, &object, &options)?;
        let is_pod = resource.group.is_empty() && resource.plural == "pods";
        match deleted {
            Deleted::Marked(object) => self.reply(call, 200, &object, &[]),
            Deleted::Gone(object) if is_pod => self.reply(call, 200, &object, &[]),
            Deleted::Gone(object) => {
                let details = Details { uid: object.uid().into(), ..Details::of(resource, object.name()) };
                let mut status =
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
                status["details"] = details.to_json();
                Ok(Reply::value(200, &status, call.media))
            }
        }
    }

    fn handle_delete_collection(&mut self, call: &Call) -> Outcome<Reply> {
        let resource = &call.target.resource;
        let mut options = call.query.list_options()?;
        options.watch = false;
        validate::check(&options)?;
        options.fields.check(resource)?;
        let delete = delete_options(call)?;
        let include = call.query.get("includeObject");
        let view = View::new(resource, call.media, include, true, self.wall())?;
        let mut metadata = Json::new();
        metadata.insert("resourceVersion".into(), json!(self.etcd.revision().to_string()));
        let scope = Scope::new(resource, &call.target.namespace, &options);
        let mut scan = Scan::new(self.etcd.objects(&resource.storage), scope, "");
        let mut deleted = Vec::new();
        while let Some(object) = scan.next() {
            self.delete_object(resource, &object, &delete)?;
            deleted.push(object);
        }
        let mut out = Vec::new();
        view.write_list(&mut out, &metadata, &deleted);
        let head = head(200, view.format.content_type(false), None);
        Ok(Reply { head: Some(head), body: view.finish(out) })
    }

    fn existing(&self, call: &Call) -> Outcome<std::sync::Arc<Object>> {
        let resource = &call.target.resource;
        let key = storage_key(&call.target.namespace, call.name());
        let found = self.etcd.get(&resource.storage, &key).cloned();
        found.ok_or_else(|| Status::not_found(resource, call.name()))
    }

    fn reply(&self, call: &Call, code: u16, object: &Object, warnings: &[String]) -> Outcome<Reply> {
        let resource = &call.target.resource;
        let view = View::new(resource, call.media, call.query.get("includeObject"), false, self.wall())?;
        let mut out = Vec::new();
        view.write_object(&mut out, object, None, true);
        let mut head = head(code, view.format.content_type(false), Some(resource));
        for warning in warnings {
            add_warning(&mut head, warning);
        }
        Ok(Reply { head: Some(head), body: view.finish(out) })
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    List,
    Get,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

fn verb(method: &Method, target: &Target) -> Outcome<Verb> {
    let resource = &target.resource;
    let everywhere = resource.namespaced && target.namespace.is_empty();
    let (verb, name) = match (&target.name, target.subresource.is_some(), method) {
        (_, false, &Method::GET) if target.watch => (Verb::List, "watch"),
        (None, _, &Method::GET) => (Verb::List, "list"),
        (None, _, &Method::POST) if !everywhere => (Verb::Create, "create"),
        (None, _, &Method::DELETE) if !everywhere => (Verb::DeleteCollection, "deletecollection"),
        (Some(_), _, &Method::GET) => (Verb::Get, "get"),
        (Some(_), _, &Method::PUT) => (Verb::Update, "update"),
        (Some(_), _, &Method::PATCH) => (Verb::Patch, "patch"),
        (Some(_), false, &Method::DELETE) => (Verb::Delete, "delete"),
        _ => return Err(Status::method_not_allowed()),
    };
    if resource.can(name) { Ok(verb) } else { Err(Status::method_not_allowed()) }
}

fn check_name(call: &Call, object: &Value) -> Outcome<()> {
    let name = text_at(object, &["metadata", "name"]);
    if !name.is_empty() && name != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    let namespace = text_at(object, &["metadata", "namespace"]);
    if !namespace.is_empty() && namespace != call.target.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    Ok(())
}

/// Removes members that the type does not have: `Strict` refuses them, `Warn` (the default) tells, `Ignore` does not.
fn prune(resource: &Resource, object: &mut Json, validation: Option<&str>) -> Outcome<Vec<String>> {
    if resource.members.is_empty() {
        return Ok(Vec::new());
    }
    let known =
        |name: &str| matches!(name, "kind" | "apiVersion" | "metadata") || resource.members.contains(&name);
    let unknown: Vec<String> =
        object.keys().filter(|n| !known(n)).map(|n| format!("unknown field \"{n}\"")).collect();
    object.retain(|name, _| known(name));
    match validation {
        Some("Strict") if !unknown.is_empty() => Err(Status::bad_request(format!(
            "{0} in version \"{1}\" cannot be handled as a {0}: strict decoding error: {2}",
            resource.kind,
            resource.version,
            unknown.join(", ")
        ))),
        Some("Ignore") => Ok(Vec::new()),
        _ => Ok(unknown),
    }
}

fn delete_options(call: &Call) -> Outcome<DeleteOptions> {
    let body: Value = if call.body.is_empty() {
        Value::Null
    } else if call.content_type() == PROTOBUF {
        protobuf::delete_options(&call.body)?
    } else {
        serde_json::from_slice(&call.body).map_err(|e| Status::bad_request(e.to_string()))?
    };
    let text = |path: &[&str]| Some(text_at(&body, path)).filter(|t| !t.is_empty()).map(str::to_owned);
    let grace = call.query.get("gracePeriodSeconds").and_then(|text| text.parse().ok());
    Ok(DeleteOptions {
        uid: text(&["preconditions", "uid"]),
        version: text(&["preconditions", "resourceVersion"]),
        grace: body["gracePeriodSeconds"].as_i64().or(grace),
        dry_run: call.query.is_dry_run() || body["dryRun"].as_array().is_some_and(|list| !list.is_empty()),
    })
}
