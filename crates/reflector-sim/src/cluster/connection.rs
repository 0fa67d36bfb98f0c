//! One request, and what is under way on its connection.

use std::{collections::VecDeque, fmt, time::Duration};

use fastrand::Rng;
use reflector::{
    source::{ListOptions, WatchOptions},
    wire::{Limits, ListCutter, TypeMeta, WatchCutter},
};
use serde::Deserialize;

use super::{Cluster, Event};
use crate::plan::{Fault, Format};

/// What is decoded of an object.
#[derive(Debug, Deserialize)]
pub(crate) struct Body {
    data: Data,
}

#[derive(Debug, Deserialize)]
struct Data {
    write: String,
}

impl Body {
    /// The number of the write that made it.
    pub(crate) fn write(&self) -> Option<u64> {
        self.data.write.parse().ok()
    }
}

/// What is asked for.
pub(crate) enum Ask {
    List(ListOptions),
    Watch(WatchOptions),
}

impl Ask {
    pub(crate) fn is_next_page(&self) -> bool {
        matches!(self, Self::List(options) if options.continue_token.is_some())
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self, Self::List(_))
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = match self {
            Self::List(options) => options.parameters(),
            Self::Watch(options) => options.parameters(),
        };
        f.write_str(if self.is_list() { "list" } else { "watch" })?;
        parameters.iter().filter(|(name, _)| *name != "watch").try_for_each(|(n, v)| write!(f, " {n}={v}"))
    }
}

/// What the client wants of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Main,
    Check,
    Reopen,
}

/// What the sender knew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// When it was sent.
    pub(crate) at: Duration,
    /// As of when what the sender had was the present state.
    pub(crate) as_of: Duration,
}

/// What is under way to the client.
#[derive(Debug)]
pub(crate) enum Parcel {
    Head,
    Refusal { code: u16, retry_after: Option<u64>, body: String },
    Bytes(Vec<u8>, Sent),
    End,
    Reset,
}

/// What the client makes of the bytes.
pub(crate) enum Cutter {
    List(ListCutter<Body>),
    Watch(WatchCutter<Body>),
    /// The body is over.
    Spent,
}

/// A watch, as the server sees it.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Up to which revision everything was sent.
    pub(crate) cursor: u64,
    /// The initial events are still to be sent, once the cache has this revision.
    pub(crate) initial: Option<u64>,
    pub(crate) bookmarks: bool,
    pub(crate) selected: bool,
    /// The events that were sent last, for a replay.
    pub(crate) last: Vec<u8>,
}

/// One request and its answer.
pub(crate) struct Connection {
    pub(crate) ask: Ask,
    pub(crate) role: Role,
    pub(crate) server: usize,
    pub(crate) incarnation: u32,
    pub(crate) token: u64,
    pub(crate) format: Format,
    pub(crate) since: Duration,
    pub(crate) rng: Rng,
    /// The client has not dropped it.
    open: bool,
    /// Nothing that is sent arrives.
    pub(crate) silent: bool,
    /// Nothing more is sent.
    pub(crate) finished: bool,
    /// When the last thing that is under way arrives: they keep their order.
    last_arrival: Duration,
    pub(crate) stream: Option<Stream>,
    /// The head is still to be sent, with whatever comes first.
    pub(crate) head_held: bool,
    /// What is to go wrong with the body.
    pub(crate) sabotage: Option<Fault>,
    /// The server has begun to think about it.
    pub(crate) admitted: bool,
    /// The client has seen the head.
    pub(crate) opened: bool,
    pub(crate) cutter: Cutter,
    /// What the sender of the last bytes knew.
    pub(crate) last_sent: Option<Sent>,
    /// What has arrived, while the store has no room.
    pub(crate) waiting: VecDeque<Parcel>,
    /// What waits for the end of a partition.
    pub(crate) held: VecDeque<Parcel>,
}

impl Connection {
    #[expect(clippy::too_many_arguments, reason = "made in one place")]
    pub(crate) fn new(
        ask: Ask,
        role: Role,
        server: usize,
        incarnation: u32,
        token: u64,
        format: Format,
        since: Duration,
        rng: Rng,
    ) -> Self {
        let types = || Some(TypeMeta::new("v1", "ConfigMap"));
        let limits = Limits::default();
        let cutter = match (&ask, format) {
            (Ask::List(_), Format::Json) => Cutter::List(ListCutter::new(types(), limits)),
            (Ask::List(_), Format::Protobuf) => Cutter::List(ListCutter::protobuf(limits)),
            (Ask::Watch(_), Format::Json) => Cutter::Watch(WatchCutter::new(types(), limits)),
            (Ask::Watch(_), Format::Protobuf) => Cutter::Watch(WatchCutter::protobuf(limits)),
        };
        Self {
            ask,
            role,
            server,
            incarnation,
            token,
            format,
            since,
            rng,
            open: true,
            silent: false,
            finished: false,
            last_arrival: since,
            stream: None,
            head_held: false,
            sabotage: None,
            admitted: false,
            opened: false,
            cutter,
            last_sent: None,
            waiting: VecDeque::new(),
            held: VecDeque::new(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) fn close(&mut self) {
        self.open = false;
        self.stream = None;
        self.waiting.clear();
        self.cutter = Cutter::Spent;
    }

    pub(crate) fn is_served_by(&self, server: usize) -> bool {
        self.open && self.server == server && self.stream.is_some()
    }
}

impl Cluster {
    /// How long a message of a connection is under way.
    pub(crate) fn delay(&mut self, id: usize) -> Duration {
        let slow = if self.now < self.conditions.slow_until { self.conditions.slowness } else { 0 };
        let most = self.nature.latency * 1000;
        let connection = &mut self.connections[id];
        Duration::from_micros(connection.rng.u64(most / 4..=most.max(1))) + Duration::from_millis(slow)
    }

    pub(crate) fn send(&mut self, id: usize, parcel: Parcel) {
        let connection = &self.connections[id];
        if !connection.open || connection.silent || connection.finished {
            return;
        }
        let at = (self.now + self.delay(id)).max(self.connections[id].last_arrival);
        self.connections[id].last_arrival = at;
        self.schedule(at, Event::Deliver(id, parcel));
    }

    pub(crate) fn send_head(&mut self, id: usize) {
        if self.nature.holds_heads && !self.connections[id].ask.is_list() {
            self.connections[id].head_held = true;
        } else {
            self.send(id, Parcel::Head);
        }
    }

    /// Sends a part of a body, cut into chunks as networks do.
    pub(crate) fn send_bytes(&mut self, id: usize, bytes: &[u8], sent: Sent) {
        if std::mem::take(&mut self.connections[id].head_held) {
            self.send(id, Parcel::Head);
        }
        let sabotage = self.connections[id].sabotage.take();
        let whole = bytes.len();
        let keep = if sabotage.is_some() { self.connections[id].rng.usize(0..whole.max(1)) } else { whole };
        let mut rest = &bytes[..keep];
        while !rest.is_empty() {
            let most = if self.nature.chunk == 0 { rest.len() } else { self.nature.chunk.min(rest.len()) };
            let size = if self.nature.chunk == 0 { most } else { self.connections[id].rng.usize(1..=most) };
            let (chunk, later) = rest.split_at(size);
            self.send(id, Parcel::Bytes(chunk.to_vec(), sent));
            rest = later;
        }
        match sabotage {
            Some(Fault::ResetInside) => self.send(id, Parcel::Reset),
            Some(Fault::Stall) => {}
            Some(_) => self.send(id, Parcel::End),
            None => return,
        }
        self.finish(id);
    }

    /// Nothing more is sent.
    pub(crate) fn finish(&mut self, id: usize) {
        self.connections[id].stream = None;
        self.connections[id].finished = true;
    }

    /// The server is done with a connection, or gone.
    pub(crate) fn end_stream(&mut self, id: usize, clean: bool) {
        let connection = &mut self.connections[id];
        if !connection.open || connection.finished {
            return;
        }
        let answered = connection.stream.take().is_some();
        if clean && answered {
            if std::mem::take(&mut connection.head_held) {
                self.send(id, Parcel::Head);
            }
            self.send(id, Parcel::End);
        } else {
            self.send(id, Parcel::Reset);
        }
        self.finish(id);
    }
}
