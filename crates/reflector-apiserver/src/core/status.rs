//! The `Status` object with which kube-apiserver reports failures, and the wording of each.

use serde_json::{Value, json};

use super::{json::Object, registry::Resource};

/// One entry of `details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) field: &'static str,
}

/// `details` of a Status; empty texts are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Details {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) uid: String,
    pub(super) causes: Vec<Cause>,
    pub(super) retry_after: u64,
}

impl Details {
    /// Names an object, or with an empty name a whole resource.
    pub(super) fn of(resource: &Resource, name: &str) -> Self {
        Self {
            name: name.into(),
            group: resource.group.clone(),
            kind: resource.plural.clone(),
            ..Self::default()
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut map = Object::new();
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                map.insert(key.into(), json!(text));
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(Cause::to_json).collect();
            map.insert("causes".into(), Value::Array(causes));
        }
        if self.retry_after > 0 {
            map.insert("retryAfterSeconds".into(), json!(self.retry_after));
        }
        Value::Object(map)
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut map = Object::new();
        map.insert("reason".into(), json!(self.reason));
        map.insert("message".into(), json!(self.message));
        if !self.field.is_empty() {
            map.insert("field".into(), json!(self.field));
        }
        Value::Object(map)
    }
}

/// How the failure is written: not every answer of the real server is a negotiated Status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// A Status in the negotiated format.
    Status,
    /// The Status of the request deadline: without kind and apiVersion, labelled as text.
    Deadline,
    /// The message itself as text, as Go's `http.NotFound` writes it.
    Text,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: u16,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) details: Option<Details>,
    /// `metadata.continue`: the inconsistent token of an expired page.
    pub(super) continue_token: String,
    /// The header Retry-After, in seconds.
    pub(super) retry_after: Option<u64>,
    pub(super) body: Body,
}

/// What a stage of the pipeline returns: refusals are boxed because they are large and rare.
pub(super) type Outcome<T> = Result<T, Box<Status>>;

impl Status {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: String::new(),
            retry_after: None,
            body: Body::Status,
        })
    }

    pub(super) fn with(mut self: Box<Self>, details: Details) -> Box<Self> {
        self.details = Some(details);
        self
    }

    /// The Status as JSON, members in the order of the Go struct.
    pub(super) fn to_json(&self) -> Value {
        let mut map = Object::new();
        if self.body != Body::Deadline {
            map.insert("kind".into(), json!("Status"));
            map.insert("apiVersion".into(), json!("v1"));
        }
        let mut metadata = Object::new();
        if !self.continue_token.is_empty() {
            metadata.insert("continue".into(), json!(self.continue_token));
        }
        map.insert("metadata".into(), Value::Object(metadata));
        map.insert("status".into(), json!("Failure"));
        map.insert("message".into(), json!(self.message));
        if !self.reason.is_empty() {
            map.insert("reason".into(), json!(self.reason));
        }
        if let Some(details) = &self.details {
            map.insert("details".into(), details.to_json());
        }
        map.insert("code".into(), json!(self.code));
        Value::Object(map)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Box<Self> {
        Self::new(400, "BadRequest", message)
    }

    /// An error of the Go code that is no Status: code 500 without a reason.
    pub(super) fn unexpected(message: impl Into<String>) -> Box<Self> {
        Self::new(500, "", message)
    }

    /// Nothing serves this path: text, like Go's `http.NotFound`.
    pub(super) fn no_path() -> Box<Self> {
        let mut status = Self::new(404, "", "404 page not found\n");
        status.body = Body::Text;
        status
    }

    pub(super) fn no_resource() -> Box<Self> {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with(Details::default())
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Box<Self> {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", resource.qualified()))
            .with(Details::of(resource, name))
    }

    pub(super) fn method_not_allowed() -> Box<Self> {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with(Details::default())
    }

    pub(super) fn no_watch(resource: &Resource) -> Box<Self> {
        let message = format!("watch is not supported on resources of kind \"{}\"", resource.plural);
        Self::new(405, "MethodNotAllowed", message).with(Details::of(resource, ""))
    }

    pub(super) fn already_exists(resource: &Resource, name: &str) -> Box<Self> {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", resource.qualified()))
            .with(Details::of(resource, name))
    }

    pub(super) fn conflict(resource: &Resource, name: &str, why: &str) -> Box<Self> {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::new(409, "Conflict", message).with(Details::of(resource, name))
    }

    pub(super) fn modified(resource: &Resource, name: &str) -> Box<Self> {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// All violations of one request in one answer.
    pub(super) fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Box<Self> {
        let violations: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let violations = match violations.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("{qualified} \"{name}\" is invalid: {violations}");
        let details = Details {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            causes,
            ..Details::default()
        };
        Self::new(422, "Invalid", message).with(details)
    }

    /// The history of this list is gone.
    pub(super) fn expired_list() -> Box<Self> {
        Self::new(410, "Expired", "The resourceVersion for the provided list is too old.")
    }

    /// The history of this page is gone; `token` continues at the current state instead.
    pub(super) fn expired_continue(token: String) -> Box<Self> {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start \
                       a new list without the continue parameter, or use the continue token in this response to \
                       retrieve the remainder of the results. Continuing with the provided token results in an \
                       inconsistent list - objects that were created, modified, or deleted between the time the \
                       first chunk was returned and now may show up in the list.";
        let mut status = Self::new(410, "Expired", message);
        status.continue_token = token;
        status
    }

    /// The watch cache has dropped this part of history.
    pub(super) fn expired_watch(asked: u64, oldest: u64) -> Box<Self> {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    /// etcd has compacted this part of history.
    pub(super) fn compacted_watch() -> Box<Self> {
        Self::new(410, "Expired", "The resourceVersion for the provided watch is too old.")
    }

    /// A version from the future. `retry_after` is 0 where the answer gives no hint.
    pub(super) fn too_large(asked: u64, current: u64, retry_after: u64) -> Box<Self> {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge",
            message: "Too large resource version".into(),
            field: "",
        };
        let mut status = Self::new(504, "Timeout", message).with(Details {
            causes: vec![cause],
            retry_after,
            ..Details::default()
        });
        status.retry_after = (retry_after > 0).then_some(retry_after);
        status
    }

    /// The request deadline passed before anything was written.
    pub(super) fn deadline() -> Box<Self> {
        let mut status =
            Self::new(504, "Timeout", "Timeout: request did not complete within the allotted timeout")
                .with(Details::default());
        status.body = Body::Deadline;
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_the_order_of_the_go_struct() {
        let text = Status::too_large(999_999_999, 40_325, 1).to_json().to_string();
        assert_eq!(
            text,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 999999999, current: 40325","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#
        );
        assert_eq!(
            Status::deadline().to_json().to_string(),
            r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}"#
        );
    }
}
