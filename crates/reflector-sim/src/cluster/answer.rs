//! What a server answers.

use std::{rc::Rc, time::Duration};

use reflector::source::{ListOptions, WatchOptions};

use super::{
    Cluster, Event,
    connection::{Ask, Parcel, Sent, Stream},
    history::{Moment, State},
    object::{self, Record, number},
};
use crate::plan::{Fault, Format, Streaming};

/// How long a server waits for its cache to come to a version.
const CACHE_WAIT: Duration = Duration::from_secs(3);

impl Cluster {
    /// A request has reached its server, or what stands there.
    pub(crate) fn arrive(&mut self, id: usize) {
        if !self.connections[id].is_open() {
            return;
        }
        if let Some(late) = self.is_cut_off() {
            match late {
                Some(until) => self.schedule(until, Event::Arrive(id)),
                None => self.connections[id].silent = true,
            }
            return;
        }
        let server = self.connections[id].server;
        if !self.servers[server].is_up()
            || self.servers[server].incarnation != self.connections[id].incarnation
        {
            self.send(id, Parcel::Reset);
            return self.finish(id);
        }
        if !self.connections[id].admitted && !self.admit(id) {
            return;
        }
        match &self.connections[id].ask {
            Ask::List(options) => {
                let options = options.clone();
                self.answer_list(id, &options);
            }
            Ask::Watch(options) => {
                let options = options.clone();
                self.answer_watch(id, &options);
            }
        }
    }

    /// Whether a request gets as far as the resource.
    fn admit(&mut self, id: usize) -> bool {
        self.connections[id].admitted = true;
        if let Some(fault) = self.fault_for(id) {
            self.tell(|| format!("    request {id} meets {fault:?}"));
            if self.misanswer(id, fault) {
                return false;
            }
        }
        let watch = !self.connections[id].ask.is_list();
        let (code, reason, message) = if self.connections[id].token < self.conditions.token {
            (401, "Unauthorized", "Unauthorized")
        } else if self.now < self.conditions.forbidden_until {
            (403, "Forbidden", "configmaps is forbidden")
        } else if self.now < self.conditions.absent_until {
            (404, "NotFound", "the server could not find the requested resource")
        } else if watch && !self.nature.watchable {
            (405, "MethodNotAllowed", "the server does not allow this method")
        } else {
            return true;
        };
        self.refuse(id, code, reason, message);
        false
    }

    pub(crate) fn refuse(&mut self, id: usize, code: u16, reason: &str, message: &str) {
        let body = object::status(code, reason, message);
        self.send(id, Parcel::Refusal { code, retry_after: None, body });
        self.finish(id);
    }

    /// A fault takes the place of the answer; `false` if it only spoils it.
    fn misanswer(&mut self, id: usize, fault: Fault) -> bool {
        let list = self.connections[id].ask.is_list();
        let retry = |code, seconds, reason: &str| Parcel::Refusal {
            code,
            retry_after: Some(seconds),
            body: object::status(code, reason, "too much"),
        };
        match fault {
            Fault::Throttled => self.send(id, retry(429, 2, "TooManyRequests")),
            Fault::Unavailable => self.send(id, retry(503, 1, "ServiceUnavailable")),
            Fault::Internal => self.refuse(id, 500, "InternalError", "an internal error"),
            Fault::Unreadable => self.refuse(id, 500, "StoreReadError", "cannot read what is stored"),
            Fault::BadGateway => {
                let body = "<html><title>502 Bad Gateway</title></html>".to_owned();
                self.send(id, Parcel::Refusal { code: 502, retry_after: None, body });
            }
            Fault::Timeout => self.refuse(id, 504, "Timeout", "the request timed out"),
            Fault::BadRequest => self.refuse(id, 400, "BadRequest", "no"),
            Fault::WrongPath => {
                let body = "404 page not found".to_owned();
                self.send(id, Parcel::Refusal { code: 404, retry_after: None, body });
            }
            Fault::NotAllowed => self.refuse(id, 405, "MethodNotAllowed", "not this"),
            Fault::Expired | Fault::TokenExpired => {
                self.refuse(id, 410, "Expired", "The provided continue parameter is too old");
            }
            Fault::TooLarge => {
                self.refuse(id, 504, "Timeout", "Timeout: Too large resource version: 9, current: 8");
            }
            Fault::UnreadableVersion => {
                let code = if list { 400 } else { 500 };
                self.refuse(id, code, "InternalError", "resourceVersion: Invalid value: 7: not this");
            }
            Fault::ExpiredEvent
            | Fault::InternalEvent
            | Fault::UnreadableEvent
            | Fault::BadRequestEvent
            | Fault::ThrottledEvent => {
                let (code, reason, message) = error_event(fault);
                if list {
                    self.refuse(id, code, reason, message);
                } else {
                    self.send_head(id);
                    self.send_error(id, fault);
                }
            }
            Fault::Empty => {
                self.send(id, Parcel::Head);
                self.send(id, Parcel::End);
            }
            Fault::Garbage => {
                self.send(id, Parcel::Head);
                let sent = Sent { at: self.now, as_of: Duration::ZERO };
                self.send(id, Parcel::Bytes(b"}{ this is no object".to_vec(), sent));
                self.send(id, Parcel::End);
            }
            Fault::Reset => self.send(id, Parcel::Reset),
            Fault::Silence => {}
            // No watch has pages.
            Fault::Circle if !list => return false,
            Fault::Truncated | Fault::ResetInside | Fault::Stall | Fault::Circle => {
                self.connections[id].sabotage = Some(fault);
                return false;
            }
        }
        self.finish(id);
        true
    }

    /// An ERROR event, which is the last one of its stream.
    pub(crate) fn send_error(&mut self, id: usize, fault: Fault) {
        let (code, reason, message) = error_event(fault);
        let mut bytes = Vec::new();
        object::event(self.connections[id].format, object::Event::Error(code, reason, message), &mut bytes);
        self.send_bytes(id, &bytes, Sent { at: self.now, as_of: Duration::ZERO });
        self.send(id, Parcel::End);
        self.finish(id);
    }

    fn answer_list(&mut self, id: usize, options: &ListOptions) {
        let server = self.connections[id].server;
        let circle = self.connections[id].sabotage == Some(Fault::Circle);
        let text = options.continue_token.as_deref().filter(|_| !circle);
        let token = text.and_then(parse_token);
        let is_good = |(branch, rev, _)| branch == self.history.current() && rev >= self.history.compacted;
        if text.is_some() && !token.is_some_and(is_good) {
            return self.refuse(id, 410, "Expired", "The provided continue parameter is too old");
        }
        let wanted = options.version.as_ref().and_then(number);
        let (branch, rev, as_of, after) = match (token, wanted) {
            // Where the token is not looked at, the first page comes again. (What was written in between is left out: it
            // would be two states in one list, which the watch sets right later.)
            (Some((branch, rev, after)), _) => {
                (branch, rev, self.now, Some(after).filter(|_| self.nature.continues))
            }
            (None, Some(wanted)) if !self.nature.cached && wanted <= self.history.present().head => {
                (self.history.current(), self.history.present().head, self.now, None)
            }
            (None, None) => (self.history.current(), self.history.present().head, self.now, None),
            (None, Some(wanted)) => {
                let cache = &self.servers[server];
                if self.nature.floors && cache.rev < wanted {
                    if self.now < self.connections[id].since + CACHE_WAIT {
                        let at = self.now + Duration::from_millis(200);
                        return self.schedule(at, Event::Arrive(id));
                    }
                    return self.refuse(id, 504, "Timeout", "Timeout: Too large resource version");
                }
                (cache.branch, cache.rev, self.as_of(server), None)
            }
        };
        let state = self.history.branches[branch].at(rev);
        let selected = options.selection.labels.is_some();
        // What is served from the cache comes whole.
        let from_etcd = wanted.is_none() || !self.nature.cached;
        let limit = options.limit.filter(|_| self.nature.limits && from_etcd);
        let (page, more) = page(&state, selected, after, limit);
        let mut next = more.and_then(|last| Some(format!("{branch}.{rev}.{}", last?)));
        if circle {
            self.connections[id].sabotage = None;
            next = Some("round.and.round".to_owned());
        }
        let shown = Some(rev).filter(|_| self.nature.versions);
        let format = self.connections[id].format;
        let bytes = object::list(format, page.iter().map(|r| &**r), shown, next.as_deref());
        self.send_head(id);
        self.send_bytes(id, &bytes, Sent { at: self.now, as_of });
        self.send(id, Parcel::End);
        self.finish(id);
    }

    fn answer_watch(&mut self, id: usize, options: &WatchOptions) {
        let server = self.connections[id].server;
        let (rev, window) = (self.servers[server].rev, self.servers[server].window);
        let wanted = options.version.as_ref().and_then(number).filter(|wanted| *wanted != 0);
        let streaming = options.send_initial_events == Some(true);
        if streaming && self.nature.streaming == Streaming::Refused {
            return self.refuse(id, 422, "Invalid", "sendInitialEvents is forbidden");
        }
        let mut stream = Stream {
            cursor: wanted.unwrap_or(0),
            initial: None,
            bookmarks: options.bookmarks && self.nature.bookmarks,
            selected: options.selection.labels.is_some(),
            last: Vec::new(),
        };
        if streaming && self.nature.streaming == Streaming::Works {
            let head = self.history.present().head;
            let any = options.version.is_some() && wanted.is_none();
            stream.initial = Some(match wanted {
                Some(_) if !self.nature.floors => 0,
                Some(wanted) => wanted,
                None if any => 0,
                None => head,
            });
        } else if wanted.is_some_and(|wanted| wanted < window) {
            if self.nature.refuses_old_at_once && !self.nature.ends_old_silently {
                return self.refuse(id, 410, "Expired", "too old resource version");
            }
            if self.nature.ends_old_silently {
                self.send(id, Parcel::Head);
                self.send(id, Parcel::End);
                return self.finish(id);
            }
            self.send_head(id);
            return self.send_error(id, Fault::ExpiredEvent);
        }
        self.send_head(id);
        let synthetic = wanted.is_none() && stream.initial.is_none();
        if synthetic {
            stream.cursor = rev;
        }
        let bookmarks = stream.bookmarks;
        self.connections[id].stream = Some(stream);
        if synthetic {
            self.send_state(id, false);
        }
        self.flush(id);
        let timeout = options.timeout.filter(|_| self.nature.timeouts);
        let proxy = self.nature.proxy_timeout.map(Duration::from_millis);
        if let Some(life) = timeout.into_iter().chain(proxy).min() {
            self.schedule(self.now + life, Event::StreamOver(id));
        }
        if bookmarks {
            let first = self.within(60_000);
            self.schedule(self.now + first, Event::Bookmark(id));
        }
    }

    fn schedule_bookmark(&mut self, id: usize) {
        let at = self.now + Duration::from_secs(55) + self.within(10_000);
        self.schedule(at, Event::Bookmark(id));
    }

    /// Sends the state of the cache, and the bookmark that ends it if that is wanted.
    fn send_state(&mut self, id: usize, end: bool) {
        let server = self.connections[id].server;
        let (branch, rev) = (self.servers[server].branch, self.servers[server].rev);
        let state = self.history.branches[branch].at(rev);
        let format = self.connections[id].format;
        let Some(stream) = &mut self.connections[id].stream else { return };
        stream.cursor = rev;
        let mut bytes = Vec::new();
        for record in state.iter().flatten().filter(|r| r.selected || !stream.selected) {
            object::event(format, object::Event::Change("ADDED", record, record.rev), &mut bytes);
        }
        if end {
            object::event(format, object::Event::Bookmark(rev, true), &mut bytes);
        }
        if !bytes.is_empty() {
            let sent = Sent { at: self.now, as_of: self.as_of(server) };
            self.send_bytes(id, &bytes, sent);
        }
    }

    /// Sends what the cache has, and the stream has not yet.
    pub(crate) fn flush(&mut self, id: usize) {
        let server = self.connections[id].server;
        let (branch, rev) = (self.servers[server].branch, self.servers[server].rev);
        let format = self.connections[id].format;
        let Some(stream) = &mut self.connections[id].stream else { return };
        if let Some(target) = stream.initial {
            if rev >= target {
                stream.initial = None;
                self.send_state(id, true);
            }
            return;
        }
        let mut bytes = Vec::new();
        let moments = self.history.branches[branch].between(stream.cursor, rev);
        // Events come one by one: the first of them says nothing of those that follow.
        let first = moments.first().map(|moment| moment.at);
        for moment in moments {
            let unreadable = self.conditions.unreadable.contains(&moment.rev);
            write_change(format, moment, stream.selected, unreadable, &mut bytes);
        }
        stream.cursor = stream.cursor.max(rev);
        if !bytes.is_empty() {
            stream.last.clone_from(&bytes);
            let as_of = self.as_of(server);
            let sent = Sent { at: self.now, as_of: first.map_or(as_of, |first| first.min(as_of)) };
            self.send_bytes(id, &bytes, sent);
        }
    }

    pub(crate) fn bookmark(&mut self, id: usize) {
        let server = self.connections[id].server;
        let rev = self.servers[server].rev;
        let format = self.connections[id].format;
        let Some(stream) = &self.connections[id].stream else { return };
        // A cache that is behind what a watch started from has nothing to say.
        if stream.initial.is_none() && stream.cursor <= rev {
            let mut bytes = Vec::new();
            object::event(format, object::Event::Bookmark(rev, false), &mut bytes);
            let sent = Sent { at: self.now, as_of: self.as_of(server) };
            self.send_bytes(id, &bytes, sent);
        }
        self.schedule_bookmark(id);
    }
}

/// One page, and the last key of it if there is more.
fn page(
    state: &State,
    selected: bool,
    after: Option<u8>,
    limit: Option<u32>,
) -> (Vec<Rc<Record>>, Option<Option<u8>>) {
    let wanted = state.iter().flatten().filter(|r| r.selected || !selected);
    let mut rest = wanted.filter(|r| after.is_none_or(|after| r.key > after));
    let limit = limit.map_or(usize::MAX, |limit| limit.max(1) as usize);
    let page: Vec<_> = rest.by_ref().take(limit).cloned().collect();
    let more = rest.next().map(|_| page.last().map(|last| last.key));
    (page, more)
}

fn parse_token(token: &str) -> Option<(usize, u64, u8)> {
    let mut parts = token.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// What a write is to a stream: an object that comes into the selector is added, one that leaves it is deleted.
pub(crate) fn write_change(
    format: Format,
    moment: &Moment,
    selected: bool,
    unreadable: bool,
    out: &mut Vec<u8>,
) {
    let wanted = |record: &&Rc<Record>| record.selected || !selected;
    let old = moment.old.as_ref().filter(wanted);
    let new = moment.new.as_ref().filter(wanted);
    let (kind, record) = match (old, new) {
        (None, None) => return,
        (None, Some(new)) => ("ADDED", new),
        (Some(_), Some(new)) => ("MODIFIED", new),
        (Some(old), None) => ("DELETED", old),
    };
    let event = object::Event::Change(kind, record, moment.rev);
    if unreadable && moment.new.is_none() && format == Format::Json {
        let mut text = Vec::new();
        object::event(format, event, &mut text);
        let text = String::from_utf8_lossy(&text).replace(r#""tier":""#, r#""tier":7,"was":""#);
        out.extend_from_slice(text.as_bytes());
    } else {
        object::event(format, event, out);
    }
}

/// Code, reason and message of an ERROR event.
fn error_event(fault: Fault) -> (u16, &'static str, &'static str) {
    match fault {
        Fault::ExpiredEvent => (410, "Expired", "too old resource version"),
        Fault::InternalEvent => (500, "InternalError", "an internal error"),
        Fault::UnreadableEvent => (500, "StoreReadError", "cannot read what is stored"),
        Fault::ThrottledEvent => (429, "TooManyRequests", "storage is (re)initializing"),
        _ => (400, "BadRequest", "no"),
    }
}
