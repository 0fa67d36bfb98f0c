//! The real command, and a server for it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

use reflector_apiserver::{ApiServer, core::Core};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Whatever is waited for comes within this on the slowest of machines; otherwise it never comes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// A server on its own runtime.
pub(crate) struct Server {
    pub(crate) api: ApiServer,
    runtime: Runtime,
}

impl Server {
    pub(crate) fn start(builder: reflector_apiserver::Builder) -> Self {
        let runtime = Runtime::new().unwrap();
        let api = runtime.block_on(builder.start()).unwrap();
        Self { api, runtime }
    }

    /// With two pods in `shop`, one in `default`, and what else is looked at.
    pub(crate) fn with_objects() -> Self {
        let server = Self::start(ApiServer::builder());
        server.core(|core| {
            for (namespace, name, app) in [("shop", "cart", "cart"), ("shop", "till", "till"), ("default", "lone", "lone")] {
                create(core, "pods", pod(namespace, name, app));
            }
            create(core, "secrets", json!({"metadata": {"namespace": "shop", "name": "key"}, "type": "Opaque", "data": {"password": "aHVudGVyMg=="}}));
            create(core, "nodes", json!({"metadata": {"name": "node-1"}}));
            create(core, "deployments.apps", json!({"metadata": {"namespace": "shop", "name": "web"},
                "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}, "status": {"readyReplicas": 1}}));
        });
        server
    }

    pub(crate) fn core<R>(&self, act: impl FnOnce(&mut Core) -> R) -> R {
        let _context = self.runtime.enter();
        self.api.with_core(act)
    }

    pub(crate) fn url(&self) -> String {
        self.api.url()
    }
}

pub(crate) fn pod(namespace: &str, name: &str, app: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name, "labels": {"app": app}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "i"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [
            {"name": "main", "ready": true, "restartCount": 3, "state": {"running": {}}}]}})
}

pub(crate) fn create(core: &mut Core, resource: &str, object: Value) {
    core.create(resource, object).unwrap();
}

/// A custom resource definition.
pub(crate) fn gadgets() -> Value {
    json!({"metadata": {"name": "gadgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList", "shortNames": ["gd"]},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

pub(crate) fn gadget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"namespace": "default", "name": name}, "spec": {"size": 1}})
}

/// The command, with nothing of the machine's own configuration.
pub(crate) fn reflector(args: &[&str]) -> (Command, TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_reflector"));
    command.args(args).env("HOME", home.path()).stdin(Stdio::null());
    for name in
        ["KUBECONFIG", "RUST_LOG", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "KUBERNETES_SERVICE_HOST"]
    {
        command.env_remove(name);
    }
    (command, home)
}

/// What a command that has ended left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// The one line that tells of an error.
    pub(crate) fn error(&self) -> &str {
        let lines: Vec<&str> = self.stderr.lines().collect();
        let [line] = lines[..] else { panic!("not one line: {:?}", self.stderr) };
        line.strip_prefix("error: ").unwrap_or_else(|| panic!("no error: {line}"))
    }
}

/// Runs a command to its end.
pub(crate) fn run(args: &[&str]) -> Ended {
    Running::start(args).end()
}

/// The lines of one stream so far, and whether it has ended.
#[derive(Default)]
struct Lines {
    state: Mutex<(Vec<String>, bool)>,
    more: Condvar,
}

impl Lines {
    fn read(stream: impl Read + Send + 'static) -> Arc<Self> {
        let lines = Arc::new(Self::default());
        let sink = Arc::clone(&lines);
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                sink.state.lock().unwrap().0.push(line);
                sink.more.notify_all();
            }
            sink.state.lock().unwrap().1 = true;
            sink.more.notify_all();
        });
        lines
    }

    /// Waits for a line from `from` on that holds the text; its place.
    fn wait(&self, from: usize, text: &str) -> usize {
        let until = Instant::now() + DEADLINE;
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(found) = state.0.iter().skip(from).position(|line| line.contains(text)) {
                return from + found;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !state.1 && !left.is_zero(),
                "no line with `{text}` after line {from} in:\n{}",
                state.0.join("\n")
            );
            state = self.more.wait_timeout(state, left).unwrap().0;
        }
    }

    fn all(&self) -> String {
        let until = Instant::now() + DEADLINE;
        let mut state = self.state.lock().unwrap();
        while !state.1 {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it does not end: {:?}", state.0);
            state = self.more.wait_timeout(state, left).unwrap().0;
        }
        state.0.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    stdout: Option<Arc<Lines>>,
    stderr: Arc<Lines>,
    seen: (usize, usize),
    _home: TempDir,
}

impl Running {
    pub(crate) fn start(args: &[&str]) -> Self {
        let (mut running, stdout) = Self::start_unread(args);
        running.stdout = Some(Lines::read(stdout));
        running
    }

    /// Nobody reads its stdout yet.
    pub(crate) fn start_unread(args: &[&str]) -> (Self, ChildStdout) {
        let (mut command, home) = reflector(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let stderr = Lines::read(child.stderr.take().unwrap());
        (Self { child, stdout: None, stderr, seen: (0, 0), _home: home }, stdout)
    }

    /// Waits for the next line on stdout that holds the text.
    pub(crate) fn stdout(&mut self, text: &str) -> String {
        let lines = self.stdout.as_ref().unwrap();
        let at = lines.wait(self.seen.0, text);
        self.seen.0 = at + 1;
        lines.state.lock().unwrap().0[at].clone()
    }

    /// Waits for the next line on stderr that holds the text.
    pub(crate) fn stderr(&mut self, text: &str) -> String {
        let at = self.stderr.wait(self.seen.1, text);
        self.seen.1 = at + 1;
        self.stderr.state.lock().unwrap().0[at].clone()
    }

    pub(crate) fn signal(&self, name: &str) {
        let status =
            Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                Instant::now() < until,
                "it does not end; stderr: {:?}",
                self.stderr.state.lock().unwrap().0
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn end(mut self) -> Ended {
        let code = self.wait().code();
        let stdout = self.stdout.as_ref().map(|lines| lines.all()).unwrap_or_default();
        Ended { code, stdout, stderr: self.stderr.all() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) mod old;
