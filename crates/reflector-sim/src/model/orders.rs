//! The driver: carries out the machine's orders, and sees to it that they keep the contract.

use reflector::protocol::{Order, Phase};

use super::{
    fault::Fault,
    scope::Scope,
    server::{Content, show},
    world::{ListAsk, Main, Past, Second, Token, WatchAsk, World, number},
};

/// So many requests without time passing, next pages not counted, are a hot loop. The longest chain of remedies
/// that the storms find is as long.
pub(super) const BURST_MAX: u8 = 11;

impl World {
    /// What a driver does after each fact: carries out the orders, and tells the time.
    pub(super) fn settle(&mut self, scope: &Scope) -> Result<(), String> {
        self.carry_out(scope)?;
        self.machine.handle_timeout(self.now);
        self.carry_out(scope)
    }

    fn carry_out(&mut self, scope: &Scope) -> Result<(), String> {
        let mut committed = true;
        while let Some(order) = self.machine.poll_order() {
            match order {
                Order::List(options) => {
                    let ask = ListAsk {
                        version: options.version.as_ref().and_then(number),
                        limit: options.limit,
                        token: options.continue_token.as_deref().and_then(Token::parse),
                    };
                    self.tell(|| format!("→ list {}", show_list(&ask)));
                    let page = ask.token.map_or(0, |token| token.key);
                    // A page that is further on is progress.
                    (if page > self.past.page { self.need_idle("page") } else { self.ask("list") })?;
                    self.past.page = page;
                    let floor = ask.version.is_some_and(|version| version > 0);
                    if ask.token.is_some() && (ask.version.is_some() || options.version_match.is_some())
                        || ask.version.is_none() && options.version_match.is_some()
                    {
                        return Err("a list whose parameters exclude each other (422)".to_owned());
                    }
                    if floor && options.version_match.is_none() {
                        return Err("a list with a version and no match".to_owned());
                    }
                    self.need_staging("list")?;
                    self.main = Main::List(ask);
                }
                Order::Watch(options) => {
                    self.ask("watch")?;
                    let streaming = options.send_initial_events == Some(true);
                    let version = options.version.as_ref().and_then(number);
                    self.tell(|| {
                        let what = if streaming { "streaming list" } else { "watch" };
                        format!("→ {what} from {version:?}")
                    });
                    if streaming {
                        self.need_staging("streaming list")?;
                    } else if version.is_none() {
                        return Err("a watch without a version, though the server gives one".to_owned());
                    } else if self.copy.staged.is_some() {
                        return Err("a watch while a replacement is under way".to_owned());
                    } else if options.version.as_ref() != self.machine.version() && committed {
                        return Err("a watch from another version than the copy's".to_owned());
                    }
                    self.main = Main::Watch(WatchAsk { version, streaming });
                }
                Order::Check(_) => {
                    self.ask_second("check")?;
                    self.tell(|| "→ check".to_owned());
                    self.second = Second::Check;
                }
                Order::Reopen(options) => {
                    self.ask_second("reopen")?;
                    let version = options.version.as_ref().and_then(number);
                    self.tell(|| format!("→ the same watch again, from {version:?}"));
                    self.second = Second::Reopen(version.ok_or("a watch is opened again without a version")?);
                }
                Order::Close => (self.main, self.main_hung) = (Main::None, false),
                Order::CloseSecond => (self.second, self.second_hung) = (Second::None, false),
                Order::BeginReplace { history, .. } => self.copy.begin(history),
                Order::CommitReplace { version } => {
                    committed = self.commit(version.as_ref().and_then(number), scope)?;
                }
                Order::AbandonReplace => {
                    self.past.page = 0;
                    self.copy.abandon();
                }
                Order::Report(report) => {
                    self.tell(|| format!("→ report: {} (again in {:?})", report.failure, report.retry_in));
                    self.reports.push(report);
                }
                Order::Refresh | Order::Bookmark(_) | Order::Resync => {}
                Order::Stopped => return Err("it stops, and nobody asked for that".to_owned()),
            }
        }
        Ok(())
    }

    fn need_idle(&self, what: &str) -> Result<(), String> {
        let idle = self.main == Main::None;
        if idle { Ok(()) } else { Err(format!("a {what}, although a main request is open")) }
    }

    fn ask(&mut self, what: &str) -> Result<(), String> {
        self.need_idle(what)?;
        self.count_request()
    }

    fn ask_second(&mut self, what: &str) -> Result<(), String> {
        if self.second != Second::None || self.main == Main::None {
            return Err(format!("a {what} beside another second request, or beside nothing"));
        }
        self.count_request()
    }

    fn count_request(&mut self) -> Result<(), String> {
        self.past.burst += 1;
        if self.past.burst > BURST_MAX {
            return Err(format!("{} requests, and no time has passed", self.past.burst));
        }
        Ok(())
    }

    fn need_staging(&self, what: &str) -> Result<(), String> {
        let open = self.copy.staged.is_some();
        if open { Ok(()) } else { Err(format!("a {what}, and no staging area is open")) }
    }

    /// `false` if the store refuses it. A watch that was ordered along with it is then closed at once.
    fn commit(&mut self, version: Option<u64>, scope: &Scope) -> Result<bool, String> {
        if std::mem::take(&mut self.refuses) {
            self.copy.abandon();
            self.machine.handle_commit_failed(self.now, Fault::StoreRefuses.message());
            return Ok(false);
        }
        self.past.page = 0;
        let history = self.copy.staged.as_ref().map(|(_, same)| *same);
        let before = self.copy.content;
        if !self.copy.commit() {
            return Err("a replacement is complete that was not begun".to_owned());
        }
        self.tell(|| "the copy is replaced".to_owned());
        match version {
            None => self.judge_deletion(scope)?,
            Some(version) => self.judge_commit(version, history == Some(true), before, scope)?,
        }
        Ok(true)
    }

    /// A resource that stays absent may be taken to be gone, if the user wants that.
    fn judge_deletion(&mut self, scope: &Scope) -> Result<(), String> {
        if scope.options.delete_absent_after.is_none() || self.copy.content != Content::default() {
            return Err("a copy without a version, though the server gives one".to_owned());
        }
        self.past = Past { held: true, burst: self.past.burst, ..Past::default() };
        Ok(())
    }

    fn judge_commit(
        &mut self,
        version: u64,
        same_history: bool,
        before: Content,
        scope: &Scope,
    ) -> Result<(), String> {
        let other_epoch = self.past.epoch.is_some_and(|epoch| epoch != self.server.epoch);
        // The server gave out the versions of another history, and the machine took them for its own.
        self.past.mixed = same_history && (other_epoch || self.past.mixed);
        if self.past.mixed && !scope.catch_up {
            return Err(format!(
                "version {version} of a restored server is taken for the history of the copy"
            ));
        }
        (self.past.refused, self.past.held) = (false, true);
        self.past.epoch = Some(self.server.epoch);
        if version > self.server.revision() {
            return Err(format!("the copy is of version {version}, and the server has not come so far"));
        }
        let truth = self.server.content_at(version);
        if self.copy.content != truth && !self.past.mixed {
            return Err(format!(
                "the copy is said to be complete as of {version}; it has {} (before: {}), and the server had {}",
                show(&self.copy.content),
                show(&before),
                show(&truth)
            ));
        }
        Ok(())
    }

    /// Whatever state it is in: when told to stop it closes what is open, and is silent for ever.
    pub(super) fn judge_stop(&self) -> Result<(), String> {
        let mut machine = self.machine.clone();
        machine.handle_stop();
        let orders: Vec<_> = std::iter::from_fn(|| machine.poll_order()).collect();
        let closes = orders.iter().any(|order| matches!(order, Order::Close));
        let closes_second = orders.iter().any(|order| matches!(order, Order::CloseSecond));
        let abandons = orders.iter().any(|order| matches!(order, Order::AbandonReplace));
        if !closes || !closes_second || !abandons || !matches!(orders.last(), Some(Order::Stopped)) {
            return Err("it was told to stop, and something is left open".to_owned());
        }
        machine.handle_timeout(self.now + std::time::Duration::from_secs(100_000));
        machine.handle_watch_opened(self.now);
        machine.handle_stream_ended(self.now);
        machine.handle_store_failed(self.now, "full");
        let silent = machine.poll_order().is_none() && machine.poll_timeout().is_none();
        if !silent || machine.status().phase != Phase::Stopped {
            return Err("it goes on after it was told to stop".to_owned());
        }
        Ok(())
    }
}

fn show_list(ask: &ListAsk) -> String {
    match (ask.token, ask.version) {
        (Some(token), _) => format!("the next page, as of {} from {}", token.version, token.key),
        (None, version) => format!("not older than {version:?}, {:?} objects", ask.limit),
    }
}
