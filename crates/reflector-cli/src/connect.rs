//! From what was typed to a client.

use std::{path::PathBuf, time::Duration};

use http::Uri;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use reflector::protocol::Failure;

use crate::{args, error::Error, output::one_line};

/// Long enough for a VPN, short enough for a person who waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client, and what there is to say about it.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// For messages.
    pub(crate) url: String,
    /// What is meant where no namespace is named.
    pub(crate) namespace: String,
}

/// Makes a client. Nothing is sent yet.
pub(crate) async fn connect(cluster: &args::Cluster) -> Result<Connection, Error> {
    let server = cluster.server.as_deref().map(server_url).transpose()?;
    let mut config = match &server {
        // A kubeconfig that was named still gives the credentials.
        Some(url) if cluster.context.is_none() && cluster.kubeconfig.is_none() => Config::new(url.clone()),
        _ => configured(cluster).await?,
    };
    if let Some(url) = server {
        config.cluster_url = url;
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let namespace = config.default_namespace.clone();
    let client = reflector::kube_client(config)
        .map_err(|error| Error::failed(format!("cannot make a client for {url}: {}", chain(error))))?;
    Ok(Connection { client, url, namespace })
}

fn server_url(text: &str) -> Result<Uri, Error> {
    let wrong = || {
        Error::usage(format!(
            "--server `{text}` is no address; expected http://HOST:PORT or https://HOST:PORT"
        ))
    };
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let known = matches!(url.scheme_str(), Some("http" | "https"));
    if known && url.host().is_some_and(|host| !host.is_empty()) { Ok(url) } else { Err(wrong()) }
}

async fn configured(cluster: &args::Cluster) -> Result<Config, Error> {
    let named = cluster.kubeconfig.is_some() || cluster.context.is_some();
    let (kubeconfig, place) = match read(cluster.kubeconfig.as_ref()) {
        Ok(read) => read,
        // Nobody asked for a kubeconfig: perhaps this runs in a pod.
        Err(error) if !named && std::env::var_os("KUBECONFIG").is_none() => {
            return Config::incluster().map_err(|_| {
                Error::failed(format!(
                    "{error}, and this is not a pod; name a cluster with --server or --kubeconfig"
                ))
            });
        }
        Err(error) => return Err(Error::failed(error)),
    };
    let contexts: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let options = KubeConfigOptions { context: cluster.context.clone(), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| Error::failed(unusable(&place, &error, &contexts)))
}

/// Reads a kubeconfig; also says which, for messages.
fn read(file: Option<&PathBuf>) -> Result<(Kubeconfig, String), String> {
    let (read, place) = match (file, std::env::var_os("KUBECONFIG")) {
        (Some(file), _) => (Kubeconfig::read_from(file), file.display().to_string()),
        (None, Some(files)) if !files.is_empty() => {
            (Kubeconfig::read(), format!("{} (from $KUBECONFIG)", files.display()))
        }
        (None, _) => (Kubeconfig::read(), "~/.kube/config".to_owned()),
    };
    match read {
        Ok(kubeconfig) => Ok((kubeconfig, place)),
        Err(KubeconfigError::ReadConfig(error, path)) => {
            Err(format!("cannot read the kubeconfig {}: {error}", path.display()))
        }
        Err(KubeconfigError::FindPath) => Err("there is no kubeconfig: no home directory".to_owned()),
        Err(KubeconfigError::Parse(error)) => {
            // What follows the first line is a picture of the place.
            let error = error.to_string();
            let first = error.lines().next().unwrap_or_default();
            Err(format!("the kubeconfig {place} is no valid YAML of a kubeconfig: {}", one_line(first)))
        }
        Err(error) => Err(format!("cannot read the kubeconfig {place}: {}", chain(error))),
    }
}

fn unusable(place: &str, error: &KubeconfigError, contexts: &[String]) -> String {
    let known = match contexts {
        [] => "it has none".to_owned(),
        contexts => format!("it has {}", contexts.join(", ")),
    };
    match error {
        KubeconfigError::CurrentContextNotSet if contexts.is_empty() => {
            format!("the kubeconfig {place} has no contexts; name a cluster with --server")
        }
        KubeconfigError::CurrentContextNotSet => {
            format!("the kubeconfig {place} has no current context; choose one with --context: {known}")
        }
        KubeconfigError::LoadContext(name) => {
            format!("the kubeconfig {place} has no context `{name}`; {known}")
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("the kubeconfig {place} has no cluster `{name}`, which its context names")
        }
        error => format!("the kubeconfig {place} cannot be used: {}", one_line(&error.to_string())),
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: impl std::error::Error + Send + Sync + 'static) -> String {
    let text = one_line(Failure::transport(error).message());
    // The layers of the client, which say nothing to people.
    let text = text.strip_prefix("ServiceError: ").unwrap_or(&text);
    text.strip_prefix("client error (Connect): ").unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_a_scheme_and_a_host() {
        for text in ["http://127.0.0.1:8080", "https://example.com", "http://[::1]:80/prefix"] {
            assert!(server_url(text).is_ok(), "{text}");
        }
        for text in ["127.0.0.1:8080", "ftp://x", "http://", "", "two words"] {
            assert!(server_url(text).is_err(), "{text}");
        }
    }
}
