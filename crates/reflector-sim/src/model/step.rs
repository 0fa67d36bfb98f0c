//! What an action does: the server's and the driver's part in it.

use std::time::Duration;

use reflector::protocol::{Disposition, EventKind, Failure};

use super::{
    copy::version,
    fault::{Fault, too_large},
    scope::{Scope, Streaming, TICK},
    server::{Content, KEYS, Object},
    world::{Action, Feed, ListAsk, Main, Second, Stream, Token, WatchAsk, World, number, told},
};

/// A seed from which the first two draws of any wait come out as the shortest one, so that times are few and states meet
/// again.
const SHORTEST: u64 = 7_410_035;

/// Which of the states that a request allows is the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freshness {
    Newest,
    Oldest,
    TooOld,
}

impl World {
    /// The state after an action.
    ///
    /// # Errors
    ///
    /// A sentence that says which rule was broken.
    pub fn step(&self, scope: &Scope, action: Action) -> Result<Self, String> {
        let mut next = self.clone();
        next.take_step(self, scope, action)?;
        Ok(next)
    }

    pub(super) fn take_step(&mut self, before: &Self, scope: &Scope, action: Action) -> Result<(), String> {
        self.machine.reseed(SHORTEST);
        self.reports.clear();
        self.act(scope, action)?;
        self.settle(scope)?;
        self.judge(before, scope, action)
    }

    fn act(&mut self, scope: &Scope, action: Action) -> Result<(), String> {
        match action {
            Action::Write(write) => {
                self.writes -= 1;
                self.server.write(write);
            }
            Action::Restore(version) => {
                self.restores -= 1;
                let held = self.machine.version().and_then(number);
                let is_of_today = self.past.epoch == Some(self.server.epoch);
                self.server.restore(version);
                if is_of_today && held.is_some_and(|held| held <= version) {
                    // What the copy has is what both histories have in common.
                    self.past.epoch = Some(self.server.epoch);
                }
                self.cut_stream("etcd was restored");
            }
            Action::Remove => {
                self.removals -= 1;
                self.server.remove();
                self.cut_stream("the resource is gone");
            }
            Action::Add => self.server.absent = false,
            Action::Answer => self.answer(scope, Freshness::Newest)?,
            Action::AnswerLagging => self.answer(scope, Freshness::Oldest)?,
            Action::Deliver => self.deliver()?,
            Action::EndOfInitial => {
                if let Main::Stream(stream) = &mut self.main {
                    stream.feed = Feed::Live;
                    let sent = stream.sent;
                    self.machine.handle_progress(self.now);
                    self.machine.handle_bookmark(self.now, version(sent).as_ref(), true);
                }
            }
            Action::Bookmark => {
                self.machine.handle_progress(self.now);
                let revision = version(self.server.revision());
                self.machine.handle_bookmark(self.now, revision.as_ref(), false);
            }
            Action::AnswerSecond => self.answer_second(scope),
            Action::Wake => self.main_hung = false,
            Action::WakeSecond => self.second_hung = false,
            Action::Pass => {
                let (at, deadline) = self.machine.poll_timeout().ok_or("it would sleep for ever")?;
                let after = at.saturating_sub(self.now);
                self.tell(|| format!("{deadline:?} after {after:?}"));
                self.pass_until(at);
            }
            Action::Fault(fault) => self.fault(scope, fault)?,
            Action::FaultSecond(fault) => self.fault_second(fault),
        }
        Ok(())
    }

    /// Time passes, and the driver says so in [`settle`](Self::settle).
    fn pass_until(&mut self, at: Duration) {
        if at > self.now {
            self.now = at;
            self.past.burst = 0;
        }
    }

    fn cut_stream(&mut self, why: &str) {
        if matches!(self.main, Main::Stream(_)) {
            self.take_main();
            self.machine.handle_stream_broken(self.now, Failure::transport(why));
        }
    }

    fn take_main(&mut self) -> Main {
        self.main_hung = false;
        std::mem::replace(&mut self.main, Main::None)
    }

    fn answer(&mut self, scope: &Scope, freshness: Freshness) -> Result<(), String> {
        match self.take_main() {
            Main::List(ask) => self.answer_list(ask, freshness),
            Main::Watch(ask) => {
                self.answer_watch(ask, freshness, scope.streaming, scope);
                Ok(())
            }
            main => {
                self.main = main;
                Ok(())
            }
        }
    }

    /// The version of the state that is the answer to a request which gives a floor.
    fn version_for(&self, floor: Option<u64>, freshness: Freshness) -> Result<u64, Failure> {
        let revision = self.server.revision();
        match floor {
            Some(floor) if floor > revision => {
                Err(too_large(format!("Too large resource version: {floor}, current: {revision}")))
            }
            Some(floor) => Ok(match freshness {
                Freshness::Newest => revision,
                // Zero is any version.
                Freshness::Oldest => floor.max(1),
                Freshness::TooOld => floor.saturating_sub(1).max(1),
            }),
            None => Ok(revision),
        }
    }

    fn answer_list(&mut self, ask: ListAsk, freshness: Freshness) -> Result<(), String> {
        if self.server.absent {
            let failure = Failure::refused(404, "NotFound", "the resource is not there", [], None);
            self.machine.handle_list_failed(self.now, failure);
            return Ok(());
        }
        let (at, from) = match ask.token {
            Some(token) if token.epoch != self.server.epoch || token.version < self.server.compacted => {
                let failure = Failure::refused(410, "Expired", "the token is too old", [], None);
                self.machine.handle_list_failed(self.now, failure);
                return Ok(());
            }
            Some(token) => (token.version, token.key),
            None => match self.version_for(ask.version, freshness) {
                Ok(version) => (version, 0),
                Err(failure) => {
                    self.machine.handle_list_failed(self.now, failure);
                    return Ok(());
                }
            },
        };
        self.send_page(at, from, ask.limit)
    }

    fn send_page(&mut self, at: u64, from: usize, limit: Option<u32>) -> Result<(), String> {
        let (page, token) = self.page(at, from, limit);
        self.tell(|| {
            let items: Vec<_> = page.iter().map(|(key, object)| told(*key, object.version)).collect();
            format!(
                "a page as of {at}: [{}]{}",
                items.join(" "),
                if token.is_some() { ", more follow" } else { "" }
            )
        });
        self.machine.handle_progress(self.now);
        if self.stage(&page)? {
            self.machine.handle_page(self.now, version(at), token.map(Token::text));
        }
        Ok(())
    }

    fn page(&self, at: u64, from: usize, limit: Option<u32>) -> (Vec<(usize, Object)>, Option<Token>) {
        let content = self.server.content_at(at);
        let mut rest = (from..KEYS).filter_map(|key| content[key].map(|object| (key, object)));
        let limit = limit.map_or(KEYS, |limit| limit as usize);
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let token = rest.next().map(|(key, _)| Token { epoch: self.server.epoch, version: at, key });
        (page, token)
    }

    /// As the driver does, it is staged as it comes; `false` if the store refuses it, and so ends the list.
    fn stage(&mut self, page: &[(usize, Object)]) -> Result<bool, String> {
        for (key, object) in page {
            if !self.copy.stage(*key, *object, false) {
                return Err("an object came, and no staging area is open".to_owned());
            }
        }
        if !page.is_empty() && std::mem::take(&mut self.refuses) {
            self.machine.handle_store_failed(self.now, Fault::StoreRefuses.message());
            return Ok(false);
        }
        Ok(true)
    }

    fn answer_watch(&mut self, ask: WatchAsk, freshness: Freshness, streaming: Streaming, scope: &Scope) {
        if self.server.absent {
            let failure = Failure::refused(404, "NotFound", "the resource is not there", [], None);
            return self.machine.handle_watch_failed(self.now, failure);
        }
        let stream = match (ask.streaming, streaming) {
            (true, Streaming::Works) => match self.version_for(ask.version, freshness) {
                Ok(at) => self.state_stream(at, true),
                Err(failure) => return self.machine.handle_watch_failed(self.now, failure),
            },
            (true, Streaming::Refused) => {
                let text = "sendInitialEvents is forbidden for watch";
                let failure = Failure::refused(422, "Invalid", text, [], None);
                return self.machine.handle_watch_failed(self.now, failure);
            }
            (true, Streaming::Ignored) | (false, _) => match self.plain_stream(ask.version, scope) {
                Ok(stream) => stream,
                Err(failure) => return self.machine.handle_watch_failed(self.now, failure),
            },
        };
        self.main = Main::Stream(stream);
        self.machine.handle_watch_opened(self.now);
    }

    fn plain_stream(&self, version: Option<u64>, scope: &Scope) -> Result<Stream, Failure> {
        Ok(match version {
            Some(version) if version > 0 && version < self.server.compacted => {
                return Err(Failure::refused(410, "Expired", "too old resource version", [], None));
            }
            Some(version) if version > self.server.revision() && scope.refuses_future => {
                return Err(too_large("Too large resource version".to_owned()));
            }
            // A version ahead of the server is accepted, and nothing comes until it is passed.
            Some(version) if version > 0 => Stream { sent: version, feed: Feed::Live },
            _ => self.state_stream(self.server.revision(), false),
        })
    }

    fn state_stream(&self, at: u64, bookmark: bool) -> Stream {
        Stream { sent: at, feed: next_feed(&self.server.content_at(at), 0, bookmark) }
    }

    /// The next object of the state, or the next change.
    fn deliver(&mut self) -> Result<(), String> {
        let Main::Stream(mut stream) = self.main else { return Ok(()) };
        let (key, kind, object) = match stream.feed {
            Feed::State { next, bookmark } => {
                let content = self.server.content_at(stream.sent);
                let object = content[next].ok_or("the model's server has lost an object")?;
                stream.feed = next_feed(&content, next + 1, bookmark);
                (next, EventKind::Added, object)
            }
            Feed::Bookmark | Feed::Live => {
                stream.sent += 1;
                let entry = self.server.entry(stream.sent).ok_or("the model's server has lost a change")?;
                (entry.key, entry.kind, entry.object)
            }
        };
        self.main = Main::Stream(stream);
        if self.second != Second::None {
            // What came before the second request was made and what came after it are told apart by time.
            self.pass_until(self.now + Duration::from_millis(1));
        }
        self.event(key, kind, object)
    }

    fn event(&mut self, key: usize, kind: EventKind, object: Object) -> Result<(), String> {
        self.tell(|| format!("{kind:?} {}", told(key, object.version)));
        self.machine.handle_progress(self.now);
        let disposition = self.machine.handle_event(self.now, kind, version(object.version).as_ref());
        let deleted = kind == EventKind::Deleted;
        if disposition != Disposition::Drop && std::mem::take(&mut self.refuses) {
            self.past.refused |= disposition == Disposition::Apply;
            self.machine.handle_store_failed(self.now, Fault::StoreRefuses.message());
            return Ok(());
        }
        match disposition {
            Disposition::Apply if self.copy.staged.is_some() => {
                return Err("a change is applied while a replacement is under way".to_owned());
            }
            Disposition::Apply => {
                self.copy.apply(key, object, deleted);
                if self.past.epoch.is_some_and(|epoch| epoch != self.server.epoch) {
                    self.past.mixed = true;
                }
            }
            Disposition::Stage if !self.copy.stage(key, object, deleted) => {
                return Err("an initial event came, and no staging area is open".to_owned());
            }
            Disposition::Stage | Disposition::Drop => {}
        }
        Ok(())
    }

    fn answer_second(&mut self, scope: &Scope) {
        self.second_hung = false;
        let second = std::mem::replace(&mut self.second, Second::None);
        let gone = || Failure::refused(404, "NotFound", "the resource is not there", [], None);
        match second {
            Second::None => {}
            Second::Check => {
                let absent = self.server.absent;
                let answer = if absent { Err(gone()) } else { Ok(version(self.server.revision())) };
                self.machine.handle_checked(self.now, answer);
            }
            Second::Reopen(_) if self.server.absent => self.machine.handle_reopen_failed(self.now, gone()),
            Second::Reopen(from) => match self.plain_stream(Some(from), scope) {
                Ok(stream) => {
                    self.take_main();
                    self.main = Main::Stream(stream);
                    self.machine.handle_reopened(self.now);
                }
                Err(failure) => self.machine.handle_reopen_failed(self.now, failure),
            },
        }
    }

    fn fault_second(&mut self, fault: Fault) {
        self.faults = self.faults.map(|left| left - 1);
        let Some(failure) = fault.failure() else {
            self.second_hung = true;
            return;
        };
        self.second_hung = false;
        if let (Second::Reopen(from), Fault::Expired) = (self.second, fault) {
            self.server.compact(from);
        }
        match std::mem::replace(&mut self.second, Second::None) {
            Second::None => {}
            Second::Check => self.machine.handle_checked(self.now, Err(failure)),
            Second::Reopen(_) => self.machine.handle_reopen_failed(self.now, failure),
        }
    }

    fn fault(&mut self, scope: &Scope, fault: Fault) -> Result<(), String> {
        self.faults = self.faults.map(|left| left - 1);
        match fault {
            Fault::Hang => self.main_hung = true,
            Fault::StoreRefuses => self.refuses = true,
            Fault::Older => self.answer(scope, Freshness::TooOld)?,
            Fault::BookmarkLost => {
                if let Main::Stream(stream) = &mut self.main {
                    stream.feed = Feed::Live;
                }
            }
            Fault::Ignored => {
                if let Main::Watch(ask) = self.take_main() {
                    self.answer_watch(ask, Freshness::Newest, Streaming::Ignored, scope);
                }
            }
            Fault::TokenIgnored => {
                if let Main::List(ask) = self.take_main() {
                    self.send_page(self.server.revision(), 0, ask.limit)?;
                }
            }
            Fault::CutPage => {
                if let Main::List(ask) = self.take_main() {
                    let (at, from) = ask.token.map_or((self.server.revision(), 0), |t| (t.version, t.key));
                    let (page, _) = self.page(at, from, Some(1));
                    self.machine.handle_progress(self.now);
                    if self.stage(&page)?
                        && let Some(failure) = fault.failure()
                    {
                        self.machine.handle_list_failed(self.now, failure);
                    }
                }
            }
            Fault::End | Fault::EndLater => {
                if fault == Fault::EndLater {
                    let deadline = self.machine.poll_timeout().map(|(at, _)| at);
                    let later = self.now + TICK;
                    self.pass_until(deadline.map_or(later, |at| at.min(later)));
                }
                self.take_main();
                self.machine.handle_stream_ended(self.now);
            }
            _ => {
                if fault == Fault::Expired {
                    // It is true: what was asked for is gone for good.
                    self.server.compact(self.asked_for());
                }
                match (self.take_main(), fault.failure()) {
                    (Main::List(_), Some(failure)) => self.machine.handle_list_failed(self.now, failure),
                    (Main::Watch(_), Some(failure)) => self.machine.handle_watch_failed(self.now, failure),
                    (Main::Stream(_), Some(failure)) if fault.breaks_stream() => {
                        self.machine.handle_stream_broken(self.now, failure);
                    }
                    (Main::Stream(_), Some(failure)) => self.machine.handle_stream_error(self.now, failure),
                    _ => return Err(format!("the model cannot do this: {fault:?}")),
                }
            }
        }
        Ok(())
    }

    /// The version from which the main request goes on.
    fn asked_for(&self) -> u64 {
        match &self.main {
            Main::List(ask) => ask.token.map(|token| token.version),
            Main::Watch(ask) => ask.version.filter(|_| !ask.streaming),
            Main::Stream(stream) => Some(stream.sent),
            Main::None => None,
        }
        .unwrap_or(0)
    }

    /// Adds a line to the story, if one is told.
    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(line());
        }
    }
}

/// What is sent next of a state, from a key on.
fn next_feed(content: &Content, from: usize, bookmark: bool) -> Feed {
    match (from..KEYS).find(|key| content[*key].is_some()) {
        Some(next) => Feed::State { next, bookmark },
        None if bookmark => Feed::Bookmark,
        None => Feed::Live,
    }
}
