//! What the server can do, for clients that ask: versions, API groups, resources, health, OpenAPI.
//!
//! Both forms of discovery are there, the one document of `/api` and `/apis` (KEP-3352, aggregated discovery) and the older
//! one per group and version. OpenAPI is as much as kubectl needs in order to leave field validation to the server.

mod document;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use serde::Serialize;
use serde_json::json;

use self::document::Groups;
use crate::core::Registry;

/// The content type of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Is this a path that [`answer`] may answer? Such paths are open to everyone who is authenticated.
pub(crate) fn is_discovery(path: &str) -> bool {
    ["/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz"]
        .iter()
        .any(|prefix| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Is this a path that is open to everyone?
pub(crate) fn is_public(path: &str) -> bool {
    matches!(path, "/version" | "/version/" | "/healthz" | "/livez" | "/readyz")
}

/// Answers a request for discovery; `None` when it is about something else.
pub(crate) fn answer(
    registry: &Registry,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<Response<Bytes>> {
    if method != Method::GET {
        return None;
    }
    let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let groups = || Groups::new(registry);
    match parts[..] {
        ["healthz" | "livez" | "readyz", ..] => Some(text("ok")),
        ["version"] => Some(version()),
        ["api"] if wants_aggregated(headers) => Some(aggregated(&groups().discovery(true))),
        ["apis"] if wants_aggregated(headers) => Some(aggregated(&groups().discovery(false))),
        ["api"] => Some(json(&json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": host(headers) }],
        }))),
        ["apis"] => Some(json(&groups().group_list())),
        ["apis", group] => groups().group(group).map(|group| json(&group)),
        ["api", version] => groups().resource_list("", version).map(|list| json(&list)),
        ["apis", group, version] => groups().resource_list(group, version).map(|list| json(&list)),
        ["openapi", "v3"] => Some(json(&groups().openapi_index())),
        ["openapi", "v3", "api", version] => groups().openapi("", version).map(|document| json(&document)),
        ["openapi", "v3", "apis", group, version] => {
            groups().openapi(group, version).map(|document| json(&document))
        }
        _ => None,
    }
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|clause| {
        let mut parameters = clause.split(';').map(str::trim);
        parameters.next() == Some("application/json") && {
            let parameters: Vec<&str> = parameters.collect();
            ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
                .iter()
                .all(|wanted| parameters.contains(wanted))
        }
    })
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn version() -> Response<Bytes> {
    const VERSION: &str = r#"{
  "major": "1",
  "minor": "36",
  "emulationMajor": "1",
  "emulationMinor": "36",
  "minCompatibilityMajor": "1",
  "minCompatibilityMinor": "35",
  "gitVersion": "v1.36.0+reflector",
  "gitCommit": "",
  "gitTreeState": "",
  "buildDate": "1970-01-01T00:00:00Z",
  "goVersion": "",
  "compiler": "",
  "platform": "linux/amd64"
}"#;
    body("application/json", Bytes::from_static(VERSION.as_bytes()))
}

fn text(text: &'static str) -> Response<Bytes> {
    let mut response = body("text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn json(document: &impl Serialize) -> Response<Bytes> {
    // Nothing in these documents can fail to serialise.
    let mut bytes = serde_json::to_vec(document).unwrap_or_default();
    bytes.push(b'\n');
    body("application/json", bytes.into())
}

fn aggregated(document: &impl Serialize) -> Response<Bytes> {
    let mut response = json(document);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn body(content_type: &'static str, bytes: Bytes) -> Response<Bytes> {
    let mut response = Response::new(bytes);
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
