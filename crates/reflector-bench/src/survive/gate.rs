//! The gate: what stands between a client and its server and can do what a server cannot do to itself. It refuses
//! connections, cuts them or lets them go dead, sends bytes that no API server would send, and balances between two
//! servers. Each request has a connection of its own, so that each can be judged by its first line.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::Failure;

/// What is done to an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trick {
    /// A watch from before this version is answered 410 in the status line, as aggregated servers do it.
    Gone(u64),
    /// A streaming list is refused, as a server without the feature does it.
    NoStreaming,
    /// `200 OK` with this instead of the answer.
    Say(&'static str),
    /// The answer ends after so many bytes, head included.
    Truncate(usize),
    /// The first change in a watch is damaged, and what follows is not.
    Damage,
}

/// A trick, for some requests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    on: On,
    trick: Trick,
    left: u64,
}

/// Which requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum On {
    Watches,
    Both,
}

/// What the first line of a request asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ask {
    watch: bool,
    streaming: bool,
    version: String,
    follows: bool,
}

impl Ask {
    fn parse(line: &str) -> Self {
        let target = line.split(' ').nth(1).unwrap_or_default();
        let mut ask = Self::default();
        for pair in target.split_once('?').map_or("", |(_, query)| query).split('&') {
            match pair.split_once('=') {
                Some(("watch", value)) => ask.watch = matches!(value, "true" | "1"),
                Some(("sendInitialEvents", value)) => ask.streaming = value == "true",
                Some(("resourceVersion", value)) => value.clone_into(&mut ask.version),
                Some(("continue", value)) => ask.follows = !value.is_empty(),
                _ => {}
            }
        }
        ask
    }

    /// Whether any server with a watch cache may answer, however far it is behind.
    fn may_be_stale(&self) -> bool {
        !self.version.is_empty() && !self.follows && (self.streaming || !self.watch)
    }
}

/// What connections see of the gate.
#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    requests: u64,
    /// Where reads that may be stale go, while there is another server.
    second: Option<SocketAddr>,
}

impl State {
    /// The trick for a request, if there is one.
    fn trick(&mut self, ask: &Ask) -> Option<Trick> {
        let rule = self.rules.iter_mut().find(|rule| {
            let on = ask.watch || rule.on == On::Both;
            let concerns = match &rule.trick {
                Trick::Gone(version) => {
                    !ask.streaming && ask.version.parse().is_ok_and(|at: u64| at < *version)
                }
                Trick::NoStreaming => ask.streaming,
                _ => true,
            };
            on && concerns && rule.left > 0
        })?;
        rule.left -= 1;
        Some(rule.trick.clone())
    }
}

/// What becomes of open connections: how often they were cut, and how often they were left to go dead.
type Fate = (u64, u64);

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    state: Mutex<State>,
    fate: watch::Sender<Fate>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The gate of one server.
#[derive(Debug)]
pub(super) struct Gate {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl Gate {
    pub(super) async fn start(server: SocketAddr) -> Result<Self, Failure> {
        let shared = Shared { server, state: Mutex::default(), fate: watch::Sender::new((0, 0)) };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut gate = Self { address, shared: Arc::new(shared), accepting: None };
        gate.accept().await?;
        Ok(gate)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests came so far. Those that were refused a connection cannot be counted by anybody.
    pub(super) fn requests(&self) -> u64 {
        self.shared.state().requests
    }

    /// Plays a trick on so many of these requests.
    pub(super) fn play(&self, on: On, trick: Trick, times: u64) {
        self.shared.state().rules.push(Rule { on, trick, left: times });
    }

    /// No more tricks.
    pub(super) fn calm(&self) {
        self.shared.state().rules.clear();
    }

    /// Reads that may be stale go to this server from now on.
    pub(super) fn balance(&self, second: Option<SocketAddr>) {
        self.shared.state().second = second;
    }

    /// Closes every connection.
    pub(super) fn cut(&self) {
        self.shared.fate.send_modify(|(cuts, _)| *cuts += 1);
    }

    /// Lets every connection go dead: it stays open, and nothing comes or goes any more.
    pub(super) fn mute(&self) {
        self.shared.fate.send_modify(|(_, mutes)| *mutes += 1);
    }

    /// Closes the port and every connection.
    pub(super) async fn refuse(&mut self) {
        if let Some(task) = self.accepting.take() {
            task.abort();
            // It ends as cancelled; after that the port is closed.
            let _ = task.await;
        }
        self.cut();
    }

    /// Opens the port, if it is not open.
    pub(super) async fn accept(&mut self) -> Result<(), Failure> {
        if self.accepting.is_some() {
            return Ok(());
        }
        let listener = TcpListener::bind(self.address).await?;
        self.address = listener.local_addr()?;
        let shared = Arc::clone(&self.shared);
        self.accepting = Some(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connection(client, Arc::clone(&shared)));
            }
        }));
        Ok(())
    }
}

/// One connection, until it is over, cut or dead.
async fn connection(mut client: TcpStream, shared: Arc<Shared>) {
    let mut fate = shared.fate.subscribe();
    let (cuts, mutes) = *fate.borrow_and_update();
    tokio::select! {
        // Who broke off first, and why, the two ends see by themselves.
        _ = exchange(&mut client, &shared) => return,
        _ = fate.wait_for(|now| *now != (cuts, mutes)) => {}
    }
    // A dead connection is held on to until it is cut.
    let _ = fate.wait_for(|now| now.0 != cuts).await;
}

async fn exchange(client: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let Some(head) = request(client).await? else { return Ok(()) };
    let (line, rest) = head.split_once("\r\n").unwrap_or((&head, ""));
    let ask = Ask::parse(line);
    let (trick, address) = {
        let mut state = shared.state();
        state.requests += 1;
        let second = state.second.filter(|_| ask.may_be_stale());
        (state.trick(&ask), second.unwrap_or(shared.server))
    };
    if let Some(answer) = trick.as_ref().and_then(made_up) {
        client.write_all(answer.as_bytes()).await?;
        return client.shutdown().await;
    }
    let mut server = TcpStream::connect(address).await?;
    server.write_all(format!("{line}\r\nConnection: close\r\n{rest}").as_bytes()).await?;
    relay(&mut server, client, trick).await?;
    client.shutdown().await
}

/// The head of a request; `None` if there is none. A GET has nothing after it.
async fn request(client: &mut TcpStream) -> io::Result<Option<String>> {
    const LONGEST: usize = 64 << 10;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < LONGEST {
        if client.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    Ok(String::from_utf8(head).ok())
}

/// From the server to the client, until one of them has enough.
async fn relay(server: &mut TcpStream, client: &mut TcpStream, mut trick: Option<Trick>) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    let mut nothing = [0; 1];
    loop {
        let read = tokio::select! {
            read = server.read(&mut buffer) => read?,
            // The client sends nothing more; what can be read is its end.
            _ = client.read(&mut nothing) => return Ok(()),
        };
        let Some(bytes) = buffer.get_mut(..read).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        match &mut trick {
            Some(Trick::Truncate(left)) => {
                let kept = read.min(*left);
                *left -= kept;
                client.write_all(&bytes[..kept]).await?;
                if *left == 0 {
                    return Ok(());
                }
                continue;
            }
            Some(Trick::Damage) if damage(bytes) => trick = None,
            _ => {}
        }
        client.write_all(bytes).await?;
    }
}

/// Damages the first change in these bytes, if there is one, and leaves the length alone.
fn damage(bytes: &mut [u8]) -> bool {
    const CHANGE: &[u8] = br#"{"type":"MODIFIED","object":{"#;
    let Some(at) = bytes.windows(CHANGE.len()).position(|window| window == CHANGE) else { return false };
    if let Some(brace) = bytes.get_mut(at + CHANGE.len() - 1) {
        *brace = b']';
    }
    true
}

/// The whole answer, where the server is not asked.
fn made_up(trick: &Trick) -> Option<String> {
    let status = |code: u16, reason: &str, message: &str| {
        format!(
            r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}","reason":"{reason}","code":{code}}}"#
        )
    };
    let (line, body) = match trick {
        Trick::Gone(version) => {
            ("410 Gone", status(410, "Expired", &format!("too old resource version: 1 ({version})")))
        }
        Trick::NoStreaming => {
            let message = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            ("422 Unprocessable Entity", status(422, "Invalid", message))
        }
        Trick::Say(text) => ("200 OK", (*text).to_owned()),
        Trick::Truncate(_) | Trick::Damage => return None,
    };
    Some(format!("HTTP/1.1 {line}\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{body}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(query: &str) -> Ask {
        Ask::parse(&format!("GET /api/v1/namespaces/ns/configmaps?{query} HTTP/1.1"))
    }

    #[test]
    fn only_reads_that_name_a_version_may_be_stale() {
        assert!(!ask("limit=500").may_be_stale());
        assert!(ask("limit=500&resourceVersion=7&resourceVersionMatch=NotOlderThan").may_be_stale());
        assert!(ask("&watch=true&resourceVersion=0&sendInitialEvents=true").may_be_stale());
        assert!(!ask("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan").may_be_stale());
        assert!(!ask("watch=1&resourceVersion=7").may_be_stale());
    }

    #[test]
    fn tricks_concern_what_they_say_and_wear_out() {
        let mut state = State::default();
        state.rules.push(Rule { on: On::Watches, trick: Trick::Gone(8), left: 1 });
        assert_eq!(state.trick(&ask("limit=500")), None);
        assert_eq!(state.trick(&ask("watch=1&resourceVersion=8")), None);
        assert_eq!(state.trick(&ask("watch=1&resourceVersion=7&sendInitialEvents=true")), None);
        assert_eq!(state.trick(&ask("watch=1&resourceVersion=7")), Some(Trick::Gone(8)));
        assert_eq!(state.trick(&ask("watch=1&resourceVersion=7")), None);
    }

    #[test]
    fn only_a_change_is_damaged() {
        let mut event = br#"{"type":"MODIFIED","object":{"kind":"Widget"}}"#.to_vec();
        assert!(damage(&mut event));
        assert!(serde_json::from_slice::<serde_json::Value>(&event).is_err());
        assert!(!damage(&mut br#"{"type":"ADDED","object":{"kind":"Widget"}}"#.to_vec()));
    }
}
