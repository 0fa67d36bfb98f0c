//! Clients that others wrote, against the server: kubectl, Python's `kubernetes`, JavaScript's `@kubernetes/client-node`.
//!
//! `.ci/clients` installs the libraries into `target/clients`; `REFLECTOR_PYTHON` and `REFLECTOR_NODE_MODULES` name another
//! interpreter and folder. Where one is missing its test says so and passes.
#![allow(clippy::print_stderr, clippy::unwrap_used, reason = "in the functions that tests share, too")]

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use reflector_apiserver::{
    ApiServer,
    core::CoreOptions,
    seed::{Cluster, ClusterOptions},
};

const PODS: usize = 40;

/// A server with some pods, and its kubeconfig in a file of this test's own.
async fn server(test: &str) -> (ApiServer, PathBuf) {
    let mut options = CoreOptions::default();
    options.epoch = jiff::Timestamp::now();
    let cluster =
        Cluster::new(ClusterOptions { pods: PODS, epoch: options.epoch, ..ClusterOptions::default() });
    let server = ApiServer::builder().core(options).start().await.unwrap();
    server.with_core(|core| {
        core.create("namespaces", serde_json::json!({"metadata": {"name": "default"}})).unwrap();
        for object in cluster.objects() {
            core.create(object.resource, serde_json::from_str(&object.json).unwrap()).unwrap();
        }
    });
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}.kubeconfig", std::process::id()));
    server.write_kubeconfig(&path).unwrap();
    (server, path)
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// What `.ci/clients` installs.
fn installed(variable: &str, default: &str) -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients").join(default);
    env::var_os(variable).map_or_else(default, PathBuf::from)
}

fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

async fn run(mut command: Command) {
    let described = format!("{command:?}");
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let Output { status, stdout, stderr } = output.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(
        status.success() && stdout.trim_end().ends_with("ok"),
        "{described}: {status}\n{stdout}\n{stderr}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_does_what_people_do_with_it() {
    if !works(Command::new("kubectl").args(["version", "--client"])) {
        eprintln!("SKIPPED: there is no kubectl in the path");
        return;
    }
    let (server, kubeconfig) = server("kubectl").await;
    let mut command = Command::new("bash");
    command.arg(script("kubectl.sh")).arg(kubeconfig).arg(PODS.to_string());
    run(command).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_lists_and_watches() {
    let python = installed("REFLECTOR_PYTHON", "venv/bin/python");
    if !works(Command::new(&python).args(["-c", "import kubernetes"])) {
        eprintln!("SKIPPED: {} has no package `kubernetes`; .ci/clients installs it", python.display());
        return;
    }
    let (server, kubeconfig) = server("python").await;
    let mut command = Command::new(python);
    command.arg(script("list_watch.py")).arg(kubeconfig).arg(PODS.to_string());
    run(command).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn javascript_keeps_an_informer() {
    let modules = installed("REFLECTOR_NODE_MODULES", "node_modules");
    if !works(Command::new("node").arg("--version")) || !modules.join("@kubernetes/client-node").is_dir() {
        eprintln!(
            "SKIPPED: no node, or no @kubernetes/client-node in {}; .ci/clients installs it",
            modules.display()
        );
        return;
    }
    let (server, kubeconfig) = server("javascript").await;
    let mut command = Command::new("node");
    command.arg(script("informer.mjs")).arg(kubeconfig).arg(modules.canonicalize().unwrap());
    run(command).await;
    server.stop().await;
}
