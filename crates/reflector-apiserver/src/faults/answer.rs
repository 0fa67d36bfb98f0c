//! Made-up answers: Status bodies as kube-apiserver writes them, and the other bodies that clients meet.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use super::{ErrorBody, Respond};

/// The members of a `Status`, in the order in which kube-apiserver writes them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
    status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    code: u16,
}

#[derive(Debug, Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty", rename = "continue")]
    continue_token: &'a str,
}

/// The `details` of a Status.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    retry_after_seconds: u32,
}

impl<'a> Status<'a> {
    pub(crate) fn new(code: u16, reason: &'a str, message: &'a str) -> Self {
        Self {
            kind: "Status",
            api_version: "v1",
            metadata: Metadata { continue_token: "" },
            status: "Failure",
            message,
            reason,
            details: None,
            code,
        }
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.details = Some(Details { retry_after_seconds: seconds });
        self
    }

    pub(crate) fn continue_token(mut self, token: &'a str) -> Self {
        self.metadata.continue_token = token;
        self
    }

    pub(crate) fn json(&self) -> Vec<u8> {
        // Nothing in here can fail to serialise; an empty body is as good an error as any.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn response(&self) -> Response<Bytes> {
        let mut body = self.json();
        body.push(b'\n');
        let status = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response(status, "application/json", body.into())
    }
}

/// The reason that apimachinery gives to a code.
pub(crate) fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}

/// What kube-apiserver says, or would say, with a code.
pub(crate) fn message(code: u16) -> &'static str {
    match code {
        401 => "Unauthorized",
        403 => "forbidden by a fault",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        410 => "The resourceVersion for the provided list is too old.",
        429 => "Too many requests, please try again later.",
        500 => "Internal error occurred: injected fault",
        503 => "the server is currently unable to handle the request",
        504 => "Timeout: injected fault",
        _ => "injected fault",
    }
}

pub(crate) fn response(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

impl Respond {
    /// The answer as it goes out.
    pub(crate) fn response(&self) -> Response<Bytes> {
        let code = self.status.as_u16();
        let reason = self.reason.as_deref().unwrap_or_else(|| reason(code));
        let message = self.message.as_deref().unwrap_or_else(|| message(code));
        let mut status = Status::new(code, reason, message);
        if let Some(seconds) = self.retry_after() {
            status = status.retry_after(seconds);
        }
        let text =
            |content_type, body: &str| response(self.status, content_type, Bytes::from(body.to_owned()));
        let mut answer = match &self.body {
            ErrorBody::Status => status.response(),
            ErrorBody::PrettyStatus => {
                let pretty = serde_json::to_string_pretty(&status).unwrap_or_default();
                text("application/json", &pretty)
            }
            ErrorBody::Text(body) => text("text/plain; charset=utf-8", body),
            ErrorBody::Html(body) => text("text/html", body),
            ErrorBody::Empty => {
                let mut empty = Response::new(Bytes::new());
                *empty.status_mut() = self.status;
                empty
            }
        };
        *answer.status_mut() = self.status;
        for (name, value) in &self.headers {
            answer.headers_mut().append(name, value.clone());
        }
        answer
    }

    fn retry_after(&self) -> Option<u32> {
        let (_, value) = self.headers.iter().find(|(name, _)| name == header::RETRY_AFTER)?;
        value.to_str().ok()?.parse().ok()
    }
}

/// `410 Expired` for a continue token, with the token that goes on at the present state (apiserver, `handleCompactedErrorForPaging`).
pub(crate) fn expired_continue(token: &str) -> Response<Bytes> {
    const MESSAGE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a \
                           new list without the continue parameter, or use the continue token in this response to retrieve \
                           the remainder of the results. Continuing with the provided token results in an inconsistent list - \
                           objects that were created, modified, or deleted between the time the first chunk was returned and \
                           now may show up in the list.";
    let fresh = inconsistent_token(token).unwrap_or_default();
    Status::new(410, "Expired", MESSAGE).continue_token(&fresh).response()
}

/// The same start key with revision -1.
fn inconsistent_token(token: &str) -> Option<String> {
    #[derive(Serialize, serde::Deserialize)]
    struct Token {
        v: String,
        rv: i64,
        start: String,
    }
    let mut token: Token = serde_json::from_slice(&base64::decode(token)?).ok()?;
    token.rv = -1;
    Some(base64::encode(&serde_json::to_vec(&token).ok()?))
}

/// Unpadded URL-safe base64 (RFC 4648, section 5), as continue tokens have it.
mod base64 {
    use ::base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

    pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
        URL_SAFE_NO_PAD.decode(text).ok()
    }

    pub(super) fn encode(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_members_come_in_the_order_of_kube_apiserver() {
        let status = Status::new(401, "Unauthorized", "Unauthorized").json();
        assert_eq!(
            String::from_utf8(status).unwrap(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#
        );
    }

    #[test]
    fn an_expired_token_comes_with_one_that_goes_on() {
        let token = base64::encode(br#"{"v":"meta.k8s.io/v1","rv":7,"start":"/cm-05\u0000"}"#);
        let answer = expired_continue(&token);
        assert_eq!(answer.status(), 410);
        let body: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
        let fresh = base64::decode(body["metadata"]["continue"].as_str().unwrap()).unwrap();
        assert_eq!(fresh, br#"{"v":"meta.k8s.io/v1","rv":-1,"start":"/cm-05\u0000"}"#);
    }
}
