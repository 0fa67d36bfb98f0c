//! What must hold after every single fact, and what must hold once everything is well.

use std::{collections::VecDeque, rc::Rc, time::Duration};

use reflector::{
    Object, Subscription,
    protocol::{ErrorReport, Phase, Status},
    store::Snapshot,
};

use crate::{
    cluster::{
        Cluster,
        connection::Body,
        history::State,
        object::{KEYS, Record, key_of, number},
    },
    copy::{Copy, Folded, selector},
    plan::Setup,
    receive::Note,
};

/// The most requests in any minute, pages after the first left out, whatever goes wrong. The machine's own tests find 63
/// where a server ends each watch after a second; this bound leaves room for what is mixed into that.
pub(crate) const REQUESTS_PER_MINUTE: usize = 70;

/// The most failures in any minute: each is followed by a wait, but for those that have a remedy which is good once.
pub(crate) const FAILURES_PER_MINUTE: usize = 32;

/// What is known of the copy so far.
pub(crate) struct Check {
    selected: bool,
    /// Lists have versions. Where they have none, that of a watch says little about the whole.
    versions: bool,
    /// The branch and revision that the copy was seen at last.
    at: (usize, u64),
    /// A restored etcd has given out the versions again that the copy had: nobody can see it (a known limit), until the
    /// next complete read.
    blind: bool,
    /// It has been so at some time. Until a read that verifies, an object may be of the past although its uid and its
    /// version are the present ones.
    overtaken: bool,
    /// Revision of etcd when the reflector started; the first complete read is not older, unless any would do.
    floor: Option<u64>,
    /// The failures of the last minute.
    failures: VecDeque<Duration>,
    /// The most failures in any minute.
    pub(crate) failures_most: usize,
    /// Until when what the copy holds was the present state; `None` if it is.
    present_until: Option<Duration>,
}

impl Check {
    pub(crate) fn new(setup: &Setup, cluster: &Cluster) -> Self {
        Self {
            failures: VecDeque::new(),
            failures_most: 0,
            present_until: None,
            selected: setup.selector,
            versions: cluster.nature.versions,
            at: (0, 0),
            blind: false,
            overtaken: false,
            floor: Some(cluster.history.present().head).filter(|_| !setup.any),
        }
    }

    /// After a fact.
    ///
    /// # Errors
    ///
    /// What does not hold.
    pub(crate) fn after(
        &mut self,
        before: &Status,
        status: &Status,
        reports: &[ErrorReport],
        note: &Note,
        copy: &Copy,
        cluster: &Cluster,
    ) -> Result<(), String> {
        let snapshot = copy.cache.snapshot();
        self.content(&snapshot, cluster)?;
        self.overtaken |= self.may_be_of_the_past(cluster)
            && snapshot.version().and_then(number).is_some_and(|rev| cluster.has_overtaken(rev));
        if status.synced != snapshot.is_synced() {
            return Err(format!("status says synced={}, the cache {}", status.synced, snapshot.is_synced()));
        }
        errors(before, status, reports, note)?;
        self.proof(before, status, note, cluster)?;
        self.rate(reports.len(), cluster.now)?;
        bounds(copy, cluster)
    }

    fn rate(&mut self, failures: usize, now: Duration) -> Result<(), String> {
        let minute = Duration::from_secs(60);
        while self.failures.front().is_some_and(|at| *at + minute <= now) {
            self.failures.pop_front();
        }
        self.failures.extend((0..failures).map(|_| now));
        self.failures_most = self.failures_most.max(self.failures.len());
        let many = self.failures.len();
        (many <= FAILURES_PER_MINUTE).then_some(()).ok_or_else(|| format!("{many} failures within a minute"))
    }

    /// The content is a state that the collection had, and not one before the last.
    fn content(&mut self, snapshot: &Snapshot<Body>, cluster: &Cluster) -> Result<(), String> {
        if !snapshot.is_synced() {
            let empty = snapshot.is_empty();
            return empty.then_some(()).ok_or("there are objects before the first complete read".into());
        }
        let version = snapshot.version().and_then(number).filter(|_| self.versions);
        let Some(rev) = version else {
            return snapshot.iter().try_for_each(|object| real(object, cluster));
        };
        let branches = &cluster.history.branches;
        let had = |branch: &usize| {
            let known = &branches[*branch];
            let bodies = branches.len() > 1 && !self.overtaken;
            rev <= known.head && same(snapshot, &known.at(rev), self.selected, bodies).is_ok()
        };
        // As long as servers disagree about which history there is, a client sees now one and now the other.
        let forward = |branch: &usize| (*branch, rev) >= self.at || self.blind || cluster.disagrees();
        let mut found = (0..branches.len()).filter(forward).filter(had);
        if let Some(branch) = found.next() {
            let until = |branch: usize| branches[branch].present_until(rev);
            self.present_until = found.map(until).fold(until(branch), |a, b| a.zip(b).map(|(a, b)| a.max(b)));
            if let Some(floor) = self.floor.take()
                && branches.len() == 1
                && rev < floor
            {
                return Err(format!("the first complete read is of {rev}, etcd was at {floor} before"));
            }
            self.blind = false;
            self.at = (branch, rev);
            return Ok(());
        }
        if (0..branches.len()).any(|branch| had(&branch)) {
            return Err(format!("the copy went back from {:?} to {rev}", self.at));
        }
        if cluster.has_overtaken(rev) || cluster.disagrees() || self.blind {
            self.blind = true;
            return Ok(());
        }
        let present = branches[self.at.0.max(cluster.history.current())].at(rev);
        let differs = same(snapshot, &present, self.selected, true).err().unwrap_or_default();
        Err(format!("the copy at {rev} is no state that there was: {differs}"))
    }

    /// A copy that is called current is current, as far as the sender knew when he sent what came.
    fn proof(&self, before: &Status, status: &Status, note: &Note, cluster: &Cluster) -> Result<(), String> {
        let Some(proof) = status.last_proof.filter(|_| status.last_proof > before.last_proof) else {
            return Ok(());
        };
        let Some(sent) = note.sent else {
            return Err("the copy is called current, though nothing came".into());
        };
        let Some(version) = status.version.as_ref().and_then(number).filter(|_| self.versions) else {
            return Ok(());
        };
        if !note.versions.contains(&version) {
            return Err(format!("the copy is called current at {version} by {:?}", note.versions));
        }
        if self.blind || cluster.has_overtaken(version) {
            return Ok(());
        }
        // How old the copy is in truth, and how old it may look: less by the time that what came was under way.
        if let Some(until) = self.present_until
            && until < sent.as_of.min(proof)
        {
            return Err(format!(
                "the copy at {version} was the present state until {until:?}, is called current as of {proof:?}, and \
                 the sender was so as of {:?} when it sent at {:?}",
                sent.as_of, sent.at
            ));
        }
        Ok(())
    }

    /// Whether what the copy holds is of a history that a restore has ended, or of two at once.
    pub(crate) fn may_be_of_the_past(&self, cluster: &Cluster) -> bool {
        self.blind || self.at.0 < cluster.history.current()
    }

    /// Once everything is well: everybody has what the server has.
    ///
    /// # Errors
    ///
    /// Who has not.
    pub(crate) fn is_true(&self, copy: &Copy, cluster: &Cluster) -> Result<(), String> {
        let state = cluster.history.present().now();
        same(&copy.cache.snapshot(), &state, self.selected, false)
    }

    /// Everybody who follows has what the copy has, to the last byte.
    ///
    /// # Errors
    ///
    /// Who has not.
    pub(crate) fn all_agree(&self, copy: &Copy, cluster: &Cluster) -> Result<(), String> {
        let state = cluster.history.present().now();
        let snapshot = copy.cache.snapshot();
        let bodies = !self.overtaken;
        same(&snapshot, &state, self.selected, bodies)?;
        same(&copy.fifo.known().snapshot(), &state, self.selected, bodies)?;
        folds(&copy.popped, &snapshot, |_| true).map_err(|error| format!("the queue's consumer: {error}"))?;
        for (number, follower) in copy.followers.iter().enumerate() {
            let filter = selector();
            let wanted = |object: &Object<Body>| !follower.options.filtered || filter.matches(object.meta());
            if !follower.ended && follower.subscription.is_some() {
                folds(&follower.told.folded, &snapshot, wanted)
                    .map_err(|error| format!("subscriber {number}: {error}"))?;
            }
            if let Some(told) = follower.handler.told() {
                folds(&told.folded, &snapshot, wanted)
                    .map_err(|error| format!("handler {number}: {error}"))?;
            }
        }
        indexes(copy, &snapshot)
    }
}

/// Every failure is reported with its cause, and shown by the status.
fn errors(before: &Status, status: &Status, reports: &[ErrorReport], note: &Note) -> Result<(), String> {
    for failure in &note.failures {
        if !reports.iter().any(|report| report.failure.message() == failure) {
            return Err(format!("`{failure}` was not reported, but {reports:?}"));
        }
    }
    let message = |report: &ErrorReport| report.failure.message().to_owned();
    let (told, shown) = (reports.last().map(message), status.last_error.as_ref().map(message));
    let counted = status.counts.errors - before.counts.errors;
    if counted != reports.len() as u64 || told.is_some() && told != shown {
        return Err(format!("{reports:?} were reported, {counted} counted, and the status shows {shown:?}"));
    }
    Ok(())
}

/// Whether a snapshot is this state; with `bodies`, to the last write.
fn same(snapshot: &Snapshot<Body>, state: &State, selected: bool, bodies: bool) -> Result<(), String> {
    let mut wanted = state.iter().flatten().filter(|record| record.selected || !selected);
    let mut held = snapshot.iter();
    loop {
        match (wanted.next(), held.next()) {
            (None, None) => return Ok(()),
            (Some(record), Some(object)) if is_record(object, record, bodies) => {}
            (record, object) => {
                return Err(format!("there is {:?}, and here is {object:?}", record.map(Shown)));
            }
        }
    }
}

struct Shown<'a>(&'a Rc<Record>);

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{} {}", crate::cluster::object::name(self.0.key), self.0.rev, self.0.uid)
    }
}

fn is_record(object: &Object<Body>, record: &Record, body: bool) -> bool {
    object.version() == Some(&record.version)
        && *object.uid() == record.uid
        && key_of(object.name()) == Some(record.key)
        && (!body || object.get().is_ok_and(|got| got.write() == Some(record.write)))
}

/// Whether there ever was such an object.
fn real(object: &Object<Body>, cluster: &Cluster) -> Result<(), String> {
    let key = key_of(object.name());
    let rev = object.version().and_then(number);
    let was = |state: &State| {
        let record = key.and_then(|key| state.get(usize::from(key))?.as_ref());
        record.is_some_and(|record| is_record(object, record, true))
    };
    let is = rev.is_some_and(|rev| cluster.history.branches.iter().any(|branch| was(&branch.at(rev))));
    is.then_some(()).ok_or_else(|| format!("there never was {object:?}"))
}

fn folds(
    folded: &Folded,
    snapshot: &Snapshot<Body>,
    wanted: impl Fn(&Object<Body>) -> bool,
) -> Result<(), String> {
    let mut held = folded.values();
    for object in snapshot.iter().filter(|object| wanted(object)) {
        match held.next() {
            Some(known) if known.same_revision(object) => {}
            other => return Err(format!("knows {other:?} where there is {object:?}")),
        }
    }
    held.next().map_or(Ok(()), |ghost| Err(format!("still knows {ghost:?}")))
}

fn indexes(copy: &Copy, snapshot: &Snapshot<Body>) -> Result<(), String> {
    let mut found = 0;
    for tier in ["t0", "t1", "t2"] {
        let by = snapshot.by(&copy.by_tier, tier).map_err(|error| error.to_string())?;
        let here = snapshot.iter().filter(|object| object.label("tier") == Some(tier));
        let by: Vec<_> = by.collect();
        found += by.len();
        if !by.iter().copied().eq_by_pointer(here) {
            return Err(format!("the index of {tier} has {by:?}"));
        }
    }
    if found != snapshot.len() {
        return Err(format!("the index of labels has {found} objects of {}", snapshot.len()));
    }
    for even in [false, true] {
        let by = snapshot.by(&copy.by_write, &even).map_err(|error| error.to_string())?;
        let is = |object: &&Object<Body>| {
            object.get().ok().and_then(|body| body.write()).is_some_and(|write| (write % 2 == 0) == even)
        };
        if !by.eq_by_pointer(snapshot.iter().filter(is)) {
            return Err(format!("the index of bodies is wrong for {even}"));
        }
    }
    Ok(())
}

trait SameObjects<'a>: Iterator<Item = &'a Object<Body>> + Sized {
    fn eq_by_pointer(mut self, other: impl Iterator<Item = &'a Object<Body>>) -> bool {
        for object in other {
            if self.next().is_none_or(|mine| !mine.ptr_eq(object)) {
                return false;
            }
        }
        self.next().is_none()
    }
}

impl<'a, I: Iterator<Item = &'a Object<Body>>> SameObjects<'a> for I {}

/// Memory is bounded by objects and queues, and requests by the minute.
fn bounds(copy: &Copy, cluster: &Cluster) -> Result<(), String> {
    for (number, follower) in copy.followers.iter().enumerate() {
        let most = follower.bound();
        let subscription = follower.subscription.as_ref().map(Subscription::lag);
        for (who, lag) in [("subscriber", subscription), ("handler", follower.handler.registration.lag())] {
            if let Some(lag) = lag.filter(|lag| lag.waiting + lag.present > most) {
                return Err(format!("{who} {number} has {lag:?} in line, at most {most} are allowed"));
            }
        }
    }
    if copy.fifo.len() > usize::from(KEYS) {
        return Err(format!("{} keys wait in the queue", copy.fifo.len()));
    }
    let requests = cluster.requests.len();
    if requests > REQUESTS_PER_MINUTE {
        return Err(format!("{requests} requests within a minute"));
    }
    Ok(())
}

/// After the end: nothing is open, due, or said to go on.
///
/// # Errors
///
/// What is.
pub(crate) fn has_stopped(
    status: &Status,
    deadline: Option<Duration>,
    cluster: &Cluster,
) -> Result<(), String> {
    if status.phase != Phase::Stopped {
        return Err(format!("after the end the phase is {}", status.phase));
    }
    if let Some(at) = deadline {
        return Err(format!("after the end there is a deadline at {at:?}"));
    }
    match cluster.open_as(|_| true).next() {
        Some(id) => Err(format!("after the end request {id} is open")),
        None => Ok(()),
    }
}
