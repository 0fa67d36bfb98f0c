//! Which resources a server has.
//!
//! First the two documents of aggregated discovery (KEP-3352), which every server since 1.30 has; then, for older
//! servers and for aggregated ones in front of which a proxy drops the header, one document per group and version.

mod document;

use std::time::Duration;

use http::{Request, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use tokio::{task::JoinSet, time::timeout};

pub(crate) use self::document::{Discovery, Resource};
use self::document::{Groups, Root};
use crate::{
    connect::{Connection, chain},
    error::Error,
    output::one_line,
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
const PLAIN: &str = "application/json";

/// A server that says nothing for so long is not worth waiting for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Discovery of a server with a thousand resource definitions has a few megabytes.
const ANSWER_MAX: usize = 64 << 20;
/// An overloaded server is asked again, so often.
const TRIES: u32 = 4;
/// Documents asked for at the same time.
const AT_ONCE: usize = 8;

/// Asks a server for all its resources.
pub(crate) async fn discover(connection: &Connection) -> Result<Discovery, Error> {
    let mut discovery = Discovery::default();
    let core = get(connection, "/api", AGGREGATED).await?;
    match document::root(&core).map_err(|error| not_kubernetes(connection, "/api", &error))? {
        Root::Aggregated(groups) => discovery.add_aggregated(groups),
        Root::Versions(versions) => {
            let paths =
                versions.into_iter().map(|version| (format!("/api/{version}"), String::new(), version));
            add_lists(connection, &mut discovery, paths.collect()).await;
        }
        Root::Groups(_) => return Err(not_kubernetes(connection, "/api", "it has no versions")),
    }
    let named = get(connection, "/apis", AGGREGATED).await?;
    match document::root(&named).map_err(|error| not_kubernetes(connection, "/apis", &error))? {
        Root::Aggregated(groups) => discovery.add_aggregated(groups),
        Root::Groups(groups) => add_lists(connection, &mut discovery, paths(&groups)).await,
        Root::Versions(_) => return Err(not_kubernetes(connection, "/apis", "it has no groups")),
    }
    Ok(discovery)
}

/// A path, and the group and version that are there.
type Place = (String, String, String);

fn paths(groups: &Groups) -> Vec<Place> {
    let place = |group: &str, version: &str| {
        (format!("/apis/{group}/{version}"), group.to_owned(), version.to_owned())
    };
    groups
        .iter()
        .flat_map(|(group, versions)| versions.iter().map(move |version| place(group, version)))
        .collect()
}

/// Asks for the lists of resources. One that does not come must not hide the others: aggregated servers fail often.
async fn add_lists(connection: &Connection, discovery: &mut Discovery, places: Vec<Place>) {
    let mut lists: Vec<Option<Vec<Resource>>> = Vec::new();
    lists.resize_with(places.len(), || None);
    let mut requests = JoinSet::new();
    let mut waiting = places.iter().cloned().enumerate();
    loop {
        while requests.len() < AT_ONCE
            && let Some((index, (path, group, version))) = waiting.next()
        {
            let connection = connection.clone();
            requests.spawn(async move {
                let answer = get(&connection, &path, PLAIN).await.ok();
                (index, answer.and_then(|answer| document::resources(&answer, &group, &version)))
            });
        }
        match requests.join_next().await {
            Some(Ok((index, list))) => lists[index] = list,
            Some(Err(_)) => {}
            None => break,
        }
    }
    for ((_, group, version), list) in places.into_iter().zip(lists) {
        match list {
            Some(resources) => discovery.add(resources),
            None => discovery.add_missing(if group.is_empty() { version } else { group }),
        }
    }
}

/// Gets a document; tries again where that helps.
async fn get(connection: &Connection, path: &str, accept: &str) -> Result<Vec<u8>, Error> {
    let mut wait = Duration::from_millis(250);
    for _ in 1..TRIES {
        match get_once(connection, path, accept).await {
            Err(Trouble { again: true, .. }) => tokio::time::sleep(wait).await,
            Err(trouble) => return Err(Error::failed(trouble.message)),
            Ok(answer) => return Ok(answer),
        }
        wait *= 2;
    }
    get_once(connection, path, accept).await.map_err(|trouble| Error::failed(trouble.message))
}

struct Trouble {
    message: String,
    /// Whether the same request may do better.
    again: bool,
}

async fn get_once(connection: &Connection, path: &str, accept: &str) -> Result<Vec<u8>, Trouble> {
    let url = &connection.url;
    let trouble = |again, message| Trouble { message, again };
    let request = Request::get(path).header(header::ACCEPT, accept).body(Body::empty());
    let request = request.map_err(|error| trouble(false, format!("cannot ask {url}{path}: {error}")))?;
    let answer = timeout(ANSWER_TIMEOUT, async {
        let response = connection.client.send(request).await.map_err(chain)?;
        let (head, body) = response.into_parts();
        let body =
            Limited::new(body, ANSWER_MAX).collect().await.map_err(|error| one_line(&error.to_string()))?;
        Ok::<_, String>((head.status, body.to_bytes()))
    });
    let (status, body) = match answer.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            return Err(trouble(false, format!("cannot reach {url}: {error}; is the server running there?")));
        }
        Err(_) => {
            let waited = ANSWER_TIMEOUT.as_secs();
            return Err(trouble(
                false,
                format!("{url} took GET {path} and did not answer within {waited} s"),
            ));
        }
    };
    if status.is_success() && !document::is_html(&body) {
        return Ok(body.to_vec());
    }
    let said = document::said(&body);
    let message = match status.as_u16() {
        _ if document::is_html(&body) => format!(
            "{url} answered GET {path} with {} and a web page{said}: it is no Kubernetes API server, or a proxy is in front of it",
            status.as_u16()
        ),
        401 => format!(
            "{url} answered GET {path} with 401 Unauthorized{said}: it does not accept these credentials"
        ),
        403 => format!(
            "{url} answered GET {path} with 403 Forbidden{said}: without it resources cannot be found"
        ),
        404 => format!("{url} answered GET {path} with 404 Not Found{said}: it is no Kubernetes API server"),
        _ => format!("{url} answered GET {path} with {status}{said}"),
    };
    Err(trouble(matches!(status.as_u16(), 429 | 500 | 502 | 503 | 504), message))
}

fn not_kubernetes(connection: &Connection, path: &str, error: &str) -> Error {
    let url = &connection.url;
    Error::failed(format!("{url} does not answer GET {path} as a Kubernetes API server does: {error}"))
}
