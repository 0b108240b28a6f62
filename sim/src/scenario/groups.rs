//! `[groups]`: consumer groups that process what producers send, how their members behave, and what a seed draws of it.

use super::{
    check::{Checked, Checker},
    draw::{choose, count},
    model::{File, unwritten},
    units::{Between, Count, Nanos},
};
use crate::{
    faults::Draws,
    oracle::groups::events::Delivery,
    workload::{Assignor, GroupsConfig},
};
use serde::Deserialize;
use toml::Spanned;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

/// `[groups]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Groups {
    pub count: Spanned<Count>,
    pub members: Spanned<Count>,
    pub assignor: Spanned<Assignor>,
    pub delivery: Spanned<Delivery>,
    pub static_members: Spanned<bool>,
    pub session_timeout: Spanned<Nanos>,
    pub heartbeat_interval: Spanned<Nanos>,
    pub max_poll_interval: Spanned<Nanos>,
    /// How long a member takes for what one poll gave.
    pub processing: Spanned<Between<Nanos>>,
    /// How often a member leaves its group and comes back, in each group.
    pub leaves_per_minute: Spanned<f64>,
    /// How often a member is gone without a word, and comes back.
    pub crashes_per_minute: Spanned<f64>,
    /// How often a member takes longer between two polls than it may.
    pub slow_polls_per_minute: Spanned<f64>,
    /// How often all members of a group are gone for a while.
    pub breaks_per_minute: Spanned<f64>,
    /// How long a member is away.
    pub away: Spanned<Between<Nanos>>,
}

impl Default for Groups {
    fn default() -> Self {
        let between = |from, to| unwritten(Between { from: Nanos(from), to: Nanos(to) });
        Groups {
            count: unwritten(Count(0)),
            members: unwritten(Count(3)),
            assignor: unwritten(Assignor::Range),
            delivery: unwritten(Delivery::AtLeastOnce),
            static_members: unwritten(false),
            session_timeout: unwritten(Nanos(6 * SECOND)),
            heartbeat_interval: unwritten(Nanos(SECOND)),
            max_poll_interval: unwritten(Nanos(10 * SECOND)),
            processing: between(0, 50 * MILLISECOND),
            leaves_per_minute: unwritten(0.0),
            crashes_per_minute: unwritten(0.0),
            slow_polls_per_minute: unwritten(0.0),
            breaks_per_minute: unwritten(0.0),
            away: between(200 * MILLISECOND, 8 * SECOND),
        }
    }
}

/// `[swarm.groups]`: choices for the keys of `[groups]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SwarmGroups {
    pub members: Option<Spanned<Vec<Count>>>,
    pub assignor: Option<Spanned<Vec<Assignor>>>,
    pub static_members: Option<Spanned<Vec<bool>>>,
    pub session_timeout: Option<Spanned<Vec<Nanos>>>,
    pub processing: Option<Spanned<Vec<Between<Nanos>>>>,
}

/// What a seed makes of it.
pub(super) fn draw(file: &File, seed: u64) -> GroupsConfig {
    let (groups, swarm) = (&file.groups, &file.swarm.groups);
    let mut draws = Draws::new(seed, "groups");
    let between = |range: Between<Nanos>| (range.from.0, range.to.0);
    GroupsConfig {
        count: count(groups.count.get_ref().0),
        members: count(choose(&groups.members, &swarm.members, &mut draws).0),
        assignor: choose(&groups.assignor, &swarm.assignor, &mut draws),
        delivery: *groups.delivery.get_ref(),
        static_members: choose(&groups.static_members, &swarm.static_members, &mut draws),
        session_timeout_ns: choose(&groups.session_timeout, &swarm.session_timeout, &mut draws).0,
        heartbeat_interval_ns: groups.heartbeat_interval.get_ref().0,
        max_poll_interval_ns: groups.max_poll_interval.get_ref().0,
        processing_ns: between(choose(&groups.processing, &swarm.processing, &mut draws)),
        leaves_per_minute: *groups.leaves_per_minute.get_ref(),
        crashes_per_minute: *groups.crashes_per_minute.get_ref(),
        slow_polls_per_minute: *groups.slow_polls_per_minute.get_ref(),
        breaks_per_minute: *groups.breaks_per_minute.get_ref(),
        away_ns: between(*groups.away.get_ref()),
    }
}

impl Checker<'_> {
    pub(super) fn groups(&self) -> Checked {
        let (groups, swarm) = (&self.file.groups, &self.file.swarm.groups);
        self.number(groups.count.span(), groups.count.get_ref().0, 0, 8, "`count`")?;
        let members = (groups.members.span(), *groups.members.get_ref());
        for (span, number) in self.choices(&swarm.members)?.into_iter().chain([members]) {
            self.number(span, number.0, 1, 16, "`members`")?;
        }
        for rate in [
            &groups.leaves_per_minute,
            &groups.crashes_per_minute,
            &groups.slow_polls_per_minute,
            &groups.breaks_per_minute,
        ] {
            let per_minute = *rate.get_ref();
            if !(per_minute.is_finite() && (0.0..=600.0).contains(&per_minute)) {
                return self.fail(rate.span(), format!("{per_minute} is out of range: 0 to 600"), None);
            }
        }
        let (heartbeat, session) = (&groups.heartbeat_interval, &groups.session_timeout);
        let shortest =
            swarm.session_timeout.as_ref().and_then(|list| list.get_ref().iter().map(|nanos| nanos.0).min());
        if heartbeat.get_ref().0 >= shortest.unwrap_or(session.get_ref().0) {
            let hint = "a member that sends one heartbeat in a session is taken for dead".to_owned();
            let message = "heartbeat_interval is not below session_timeout";
            return self.fail(heartbeat.span(), message, Some(hint));
        }
        for range in [&groups.processing, &groups.away] {
            let Between { from, to } = *range.get_ref();
            if from.0 > to.0 {
                return self.fail(range.span(), "the range ends before it begins", None);
            }
        }
        Ok(())
    }
}
