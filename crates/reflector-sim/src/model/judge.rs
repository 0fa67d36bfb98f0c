//! The rules that every step has to keep.

use reflector::protocol::{Deadline, Phase, Status};

use super::{
    fault::Fault,
    scope::Scope,
    server::show,
    world::{Action, Main, Second, World, number},
};

impl World {
    pub(super) fn judge(&self, before: &Self, scope: &Scope, action: Action) -> Result<(), String> {
        let status = self.machine.status();
        self.judge_deadline()?;
        self.judge_phase(&status)?;
        self.judge_content(before, &status, scope)?;
        self.judge_proof(before, &status, scope, action)?;
        self.judge_reports(before, &status, action)
    }

    /// It never sleeps for ever, and it never spins.
    fn judge_deadline(&self) -> Result<(), String> {
        match self.machine.poll_timeout() {
            None => Err("it sleeps for ever".to_owned()),
            Some((at, deadline)) if at <= self.now => {
                Err(format!("it waits for {deadline:?}, which has passed"))
            }
            Some(_) => Ok(()),
        }
    }

    /// What it says that it does is what it does.
    fn judge_phase(&self, status: &Status) -> Result<(), String> {
        let fits = match &status.phase {
            Phase::Syncing { .. } => {
                self.copy.staged.is_some()
                    && matches!(self.main, Main::List(_) | Main::Watch(_) | Main::Stream(_))
            }
            Phase::Connecting => matches!(self.main, Main::Watch(_)),
            Phase::Watching => matches!(self.main, Main::Stream(_)),
            Phase::Waiting { until } | Phase::Absent { until } | Phase::Polling { next: until } => {
                self.main == Main::None && self.second == Second::None && *until > self.now
            }
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("its phase is {:?}, and {:?} is open", status.phase, self.main))
        }
    }

    /// The copy is a state that the server had, at the version that it says, and goes forward.
    fn judge_content(&self, before: &Self, status: &Status, scope: &Scope) -> Result<(), String> {
        if before.machine.status().synced && !status.synced {
            return Err("it was synced, and is not any more".to_owned());
        }
        if status.synced != self.is_held() {
            return Err(format!("it says synced: {}, and that is not so", status.synced));
        }
        if !status.synced || self.past.mixed || self.past.refused {
            return Ok(());
        }
        let Some(version) = status.version.as_ref().and_then(number) else {
            return if scope.options.delete_absent_after.is_some() {
                Ok(())
            } else {
                Err("it is synced, and has no version".to_owned())
            };
        };
        if self.past.epoch != Some(self.server.epoch) {
            // The server was restored, and the copy is of what it had before: no change may touch it.
            return if self.copy.content == before.copy.content {
                Ok(())
            } else {
                Err("changes of two histories are mixed in the copy".to_owned())
            };
        }
        let truth = self.server.content_at(version);
        if version > self.server.revision() || self.copy.content != truth {
            let (copy, truth) = (show(&self.copy.content), show(&truth));
            return Err(format!("the copy says version {version} and has {copy}; the server had {truth}"));
        }
        let old = before.machine.version().and_then(number);
        if before.past.epoch == self.past.epoch && old.is_some_and(|old| version < old) {
            return Err(format!("the copy went back from version {old:?} to {version}"));
        }
        Ok(())
    }

    /// Whether the copy was ever complete, by the orders.
    fn is_held(&self) -> bool {
        self.past.held
    }

    /// An answer to a check is a proof only if the copy is what the server has.
    fn judge_proof(
        &self,
        before: &Self,
        status: &Status,
        scope: &Scope,
        action: Action,
    ) -> Result<(), String> {
        let proved = status.last_proof == Some(self.now)
            && status.last_proof != before.machine.status().last_proof
            && matches!(action, Action::AnswerSecond | Action::Bookmark);
        // Unless versions were given out again, which nobody can see.
        let comparable = self.past.epoch == Some(self.server.epoch) || !scope.catch_up;
        if proved && comparable && !self.past.mixed && self.copy.content != self.server.content() {
            return Err("it says that the copy is current, and that is not so".to_owned());
        }
        Ok(())
    }

    /// Every failure reaches the status, with its cause.
    fn judge_reports(&self, before: &Self, status: &Status, action: Action) -> Result<(), String> {
        let cause = match action {
            // The store's turn came, before whatever else was wrong.
            _ if before.refuses && !self.refuses => Some(Fault::StoreRefuses.message()),
            Action::Fault(fault) | Action::FaultSecond(fault) => fault.failure().map(|_| fault.message()),
            _ => None,
        };
        let said = |text: &str| self.reports.iter().any(|report| report.failure.message().contains(text));
        if let Some(cause) = cause
            && !said(&cause)
        {
            return Err(format!("nobody is told of {cause:?}"));
        }
        let unanswered = before.main_hung && matches!(before.main, Main::List(_) | Main::Watch(_));
        let deadline = before.machine.poll_timeout().map(|(_, deadline)| deadline);
        // A verification that is due takes the place of whatever is under way.
        let gave_up = deadline == Some(Deadline::Second)
            || (unanswered && !self.main_hung && deadline != Some(Deadline::Verify));
        if action == Action::Pass && gave_up && self.reports.is_empty() {
            return Err("a request was given up in silence".to_owned());
        }
        let errors = self.machine.counts().errors - before.machine.counts().errors;
        if errors as usize != self.reports.len() {
            return Err("failures are not counted as they are reported".to_owned());
        }
        let last = self.reports.last().map(|report| report.failure.message());
        if last.is_some() && last != status.last_error.as_ref().map(|report| report.failure.message()) {
            return Err("the last failure is not the one in the status".to_owned());
        }
        Ok(())
    }
}
