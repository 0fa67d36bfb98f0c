//! The probes as an [`axum::Router`].

use axum::{
    Router,
    extract::State,
    http::{
        HeaderMap, StatusCode, Uri,
        header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, VARY},
    },
    response::{IntoResponse, Response},
    routing::get,
};

use super::{Health, Report};

impl Health {
    /// `/readyz` and `/livez`, for GET and HEAD: 200 if all is well, else 503. Needs the feature `axum`.
    ///
    /// The body of a success is `ok`, with `?verbose` a line per source; of a failure always a line per source. As JSON
    /// with `?format=json` or `Accept: application/json`. Nothing of it is to be cached.
    ///
    /// ```
    /// # async fn example(pods: reflector::Reflector<serde_json::Value>) {
    /// use reflector::health::Health;
    ///
    /// let health = Health::new();
    /// health.add(pods.monitor());
    /// let app: axum::Router = axum::Router::new().merge(health.router());
    /// // axum::serve(listener, app).await
    /// # }
    /// ```
    pub fn router(&self) -> Router {
        Router::new()
            .route(
                "/readyz",
                get(async |State(health): State<Health>, uri: Uri, headers: HeaderMap| {
                    answer(&health.readyz(), &uri, &headers)
                }),
            )
            .route(
                "/livez",
                get(async |State(health): State<Health>, uri: Uri, headers: HeaderMap| {
                    answer(&health.livez(), &uri, &headers)
                }),
            )
            .with_state(self.clone())
    }
}

fn answer(report: &Report, uri: &Uri, headers: &HeaderMap) -> Response {
    let code = if report.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let (content_type, body) = if parameter(uri, "format") == Some("json") || accepts_json(headers) {
        ("application/json", report.to_json())
    } else if report.is_ok() && parameter(uri, "verbose").is_none() {
        ("text/plain; charset=utf-8", "ok".to_owned())
    } else {
        ("text/plain; charset=utf-8", report.to_string())
    };
    let headers = [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store"), (VARY, "accept")];
    (code, headers, body).into_response()
}

/// The value of a query parameter; empty if it has none.
fn parameter<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    uri.query()?.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then_some(value)
    })
}

/// Whether JSON is asked for by name: `*/*` is what everybody sends.
fn accepts_json(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|media| media.trim().eq_ignore_ascii_case("application/json"))
}
