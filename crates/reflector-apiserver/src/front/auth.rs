//! Who may do what: bearer tokens, and rules that deny.
//!
//! Both are looked at once, when a request starts, as kube-apiserver does: a running watch survives the end of its token.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, Uri, header};

use crate::{
    core::refusal,
    discovery,
    request::{RequestInfo, Verb},
};

const FORBIDDEN: (u16, &str) = (403, "Forbidden");

/// Authentication and authorization; everyone may do everything by default.
///
/// Who impersonates somebody (`Impersonate-User`) gives up all rights, and so does who comes without a token where one is
/// wanted.
#[derive(Debug, Clone)]
pub struct Auth {
    /// The one token that is accepted. With `None` every caller is accepted.
    pub token: Option<String>,
    /// The name of the caller in messages.
    pub user: String,
    /// What is denied.
    pub deny: Vec<AccessRule>,
}

impl Default for Auth {
    fn default() -> Self {
        Self { token: None, user: "system:serviceaccount:default:client".to_owned(), deny: Vec::new() }
    }
}

/// What is denied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessRule {
    /// These verbs; none means all.
    pub verbs: Vec<Verb>,
    /// This resource; `None` means all.
    pub resource: Option<String>,
    /// In this namespace; `None` means everywhere.
    pub namespace: Option<String>,
}

impl AccessRule {
    fn matches(&self, info: &RequestInfo) -> bool {
        (self.verbs.is_empty() || self.verbs.contains(&info.verb))
            && self.resource.as_ref().is_none_or(|resource| *resource == info.resource)
            && (self.namespace.is_none() || self.namespace == info.namespace)
    }
}

impl Auth {
    const ANONYMOUS: &'static str = "system:anonymous";

    /// The answer to who may not do this.
    pub(super) fn refuse(
        &self,
        headers: &HeaderMap,
        uri: &Uri,
        info: Option<&RequestInfo>,
    ) -> Option<Response<Bytes>> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let given = text("authorization").and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
        let powerless = match (&self.token, given) {
            (Some(wanted), Some(given)) if wanted != given => {
                let message = "Unauthorized".to_owned();
                return Some(refusal(headers, uri, (401, "Unauthorized"), message, None));
            }
            (Some(_), None) => Some(Self::ANONYMOUS),
            _ => text("impersonate-user"),
        };
        match (powerless, info) {
            (Some(user), Some(info)) => Some(forbidden(headers, uri, user, info)),
            (None, Some(info)) => self
                .deny
                .iter()
                .any(|rule| rule.matches(info))
                .then(|| forbidden(headers, uri, &self.user, info)),
            (None, None) => None,
            (Some(user), None) => {
                let open = discovery::is_public(uri.path())
                    || (user != Self::ANONYMOUS && discovery::is_discovery(uri.path()));
                (!open).then(|| forbidden_path(headers, uri, user))
            }
        }
    }
}

fn forbidden_path(headers: &HeaderMap, uri: &Uri, user: &str) -> Response<Bytes> {
    let message = format!("forbidden: User \"{user}\" cannot get path \"{}\"", uri.path());
    not_sniffed(refusal(headers, uri, FORBIDDEN, message, Some(("", "", ""))))
}

fn not_sniffed(mut response: Response<Bytes>) -> Response<Bytes> {
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// The body of apiserver's `responsewriters.Forbidden`.
fn forbidden(headers: &HeaderMap, uri: &Uri, user: &str, info: &RequestInfo) -> Response<Bytes> {
    let name = info.name.as_deref().unwrap_or_default();
    let resource = match &info.subresource {
        Some(subresource) => format!("{}/{subresource}", info.resource),
        None => info.resource.clone(),
    };
    let qualified = if info.group.is_empty() {
        info.resource.clone()
    } else {
        format!("{}.{}", info.resource, info.group)
    };
    let what = if name.is_empty() { qualified } else { format!("{qualified} \"{name}\"") };
    let scope = match &info.namespace {
        Some(namespace) => format!("in the namespace \"{namespace}\""),
        None => "at the cluster scope".to_owned(),
    };
    let message = format!(
        "{what} is forbidden: User \"{user}\" cannot {} resource \"{resource}\" in API group \"{}\" {scope}",
        info.verb, info.group
    );
    let names = (name, info.group.as_str(), info.resource.as_str());
    not_sniffed(refusal(headers, uri, FORBIDDEN, message, Some(names)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(token: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static(token));
        headers
    }

    fn refuse(auth: &Auth, headers: &HeaderMap, uri: &str) -> Option<Response<Bytes>> {
        let uri: Uri = uri.parse().unwrap();
        let info = RequestInfo::parse(&http::Method::GET, &uri);
        auth.refuse(headers, &uri, info.as_ref())
    }

    fn message(response: &Response<Bytes>) -> String {
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        body["message"].as_str().unwrap().to_owned()
    }

    #[test]
    fn tokens_are_checked() {
        let auth = Auth { token: Some("t".to_owned()), ..Auth::default() };
        let list = "/api/v1/namespaces/a/configmaps";
        assert!(refuse(&auth, &bearer("Bearer t"), list).is_none());
        assert_eq!(refuse(&auth, &bearer("Bearer x"), list).unwrap().status(), 401);
        assert_eq!(
            message(&refuse(&auth, &HeaderMap::new(), list).unwrap()),
            "configmaps is forbidden: User \"system:anonymous\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"a\""
        );
        assert!(refuse(&auth, &HeaderMap::new(), "/readyz").is_none());
        assert_eq!(
            message(&refuse(&auth, &HeaderMap::new(), "/api").unwrap()),
            "forbidden: User \"system:anonymous\" cannot get path \"/api\""
        );
    }

    #[test]
    fn who_impersonates_has_no_rights() {
        let mut headers = HeaderMap::new();
        headers.insert("impersonate-user", HeaderValue::from_static("nobody"));
        let auth = Auth::default();
        assert_eq!(refuse(&auth, &headers, "/api/v1/pods").unwrap().status(), 403);
        assert_eq!(refuse(&auth, &headers, "/foo/bar").unwrap().status(), 403);
        assert!(refuse(&auth, &headers, "/apis").is_none());
    }

    #[test]
    fn rules_deny_what_they_name() {
        let rule = AccessRule {
            verbs: vec![Verb::Watch],
            resource: Some("deployments".to_owned()),
            namespace: None,
        };
        let auth = Auth { deny: vec![rule], ..Auth::default() };
        let refused = refuse(&auth, &HeaderMap::new(), "/apis/apps/v1/deployments?watch=1").unwrap();
        assert!(message(&refused).starts_with("deployments.apps is forbidden: User "));
        assert!(message(&refused).ends_with("in API group \"apps\" at the cluster scope"));
        assert!(refuse(&auth, &HeaderMap::new(), "/apis/apps/v1/deployments").is_none());
    }
}
