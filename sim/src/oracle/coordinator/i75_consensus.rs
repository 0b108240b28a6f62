//! I75, I76, K01, K02 and K03: what makes the members one: equal logs, complete leaders, one leader in a term, nothing
//! promised before it is durable, and nothing durable ever lost.

use super::{contract::CoordinatorContract, entries::Entries};
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_coordinator::observe::{Promise, Role};
use std::collections::BTreeMap;

/// One member, as far as it has told.
#[derive(Debug, Default)]
pub(super) struct Member {
    /// Its `myid`.
    pub id: u64,
    pub runs: bool,
    pub role: Option<Role>,
    pub term: u64,
    pub leader: Option<u64>,
    /// The last transaction that its process has applied.
    pub applied: i64,
    durable_term: u64,
    /// Its durable vote in each term.
    votes: BTreeMap<u64, u64>,
    /// The last entry that its newest durable snapshot stands for.
    snapshot: u64,
    /// The last entry before `terms`.
    base: u64,
    /// The term of each entry on its disk from `base` on; `None` where it was never told.
    terms: Vec<Option<u64>>,
    /// The last entry that was told to be durable. Those behind it were found on the disk at a start.
    certain: u64,
    /// Its disk was damaged: it may have lost anything.
    damaged: bool,
}

impl Member {
    fn last(&self) -> u64 {
        self.base + self.terms.len() as u64
    }

    /// The term of an entry: `None` where it is not there, `Some(None)` where the term is not known.
    fn term_of(&self, index: u64) -> Option<Option<u64>> {
        match index.checked_sub(self.base + 1) {
            None => Some(None),
            Some(place) => self.terms.get(place as usize).copied(),
        }
    }

    /// Whether its disk holds this entry, or a snapshot that includes it.
    fn holds(&self, index: u64, term: u64) -> bool {
        self.damaged || self.term_of(index).is_some_and(|known| known.is_none_or(|known| known == term))
    }

    fn cut(&mut self, last: u64) {
        self.terms.truncate(last.saturating_sub(self.base) as usize);
        self.certain = self.certain.min(last);
    }
}

/// What a member tells of its disk when it starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub member: u64,
    pub term: u64,
    pub vote: Option<u64>,
    pub first: u64,
    pub last: u64,
    pub snapshot: u64,
}

/// All members, and what no two of them may differ in.
#[derive(Debug, Default)]
pub(super) struct Consensus {
    pub members: BTreeMap<u32, Member>,
    /// Who led each term.
    pub leaders: BTreeMap<u64, u32>,
    /// The term of the entry before each entry, by index and term of the latter.
    before: BTreeMap<(u64, u64), u64>,
}

impl Consensus {
    pub fn member(&mut self, node: u32) -> &mut Member {
        self.members.entry(node).or_default()
    }

    pub fn on_started(&mut self, judge: &mut Judge, node: u32, start: Start, entries: &Entries) {
        let member = self.member(node);
        if !member.damaged {
            check_start(judge, member, start, entries);
        }
        member.id = start.member;
        member.runs = true;
        member.role = Some(Role::Follower);
        member.leader = None;
        member.term = start.term;
        member.applied = start.snapshot as i64;
        member.durable_term = start.term;
        member.snapshot = start.snapshot;
        if let Some(vote) = start.vote {
            member.votes.insert(start.term, vote);
        }
        for index in member.base + 1..=member.last() {
            // What was not committed may have been replaced by something that never became durable.
            let place = (index - member.base - 1) as usize;
            let stays = member.terms[place] == entries.term(index) || member.terms[place] == Some(start.term);
            if !stays {
                member.terms[place] = None;
            }
        }
        let last = start.last.max(start.snapshot);
        if member.damaged || start.snapshot > member.last() {
            member.base = start.snapshot;
            member.terms.clear();
            member.certain = member.base;
        }
        member.cut(last);
        member.terms.resize(last.saturating_sub(member.base) as usize, None);
        member.damaged = false;
    }

    pub fn on_stopped(&mut self, node: u32) {
        let member = self.member(node);
        member.runs = false;
        member.role = None;
        member.leader = None;
    }

    pub fn on_damaged(&mut self, node: u32) {
        self.member(node).damaged = true;
    }

    pub fn on_role(
        &mut self,
        judge: &mut Judge,
        node: u32,
        (role, term, leader): (Role, u64, Option<u64>),
        entries: &Entries,
    ) {
        let member = self.member(node);
        let (known, durable) = (member.term, member.durable_term);
        judge.demand(Invariant::K03, term >= known.max(durable), || {
            format!("the term goes back from {} to {term}", known.max(durable))
        });
        let begins = role == Role::Leader && !(member.role == Some(Role::Leader) && member.term == term);
        (member.role, member.term, member.leader) = (Some(role), term, leader);
        if !begins {
            return;
        }
        if let Some((index, of)) = entries.last_before_term(term) {
            let holds = member.holds(index, of);
            let last = member.last();
            judge.demand(Invariant::I75, holds, || {
                format!(
                    "the leader of term {term} has not the entry {index} of term {of}, which was applied; its log \
                     ends at {last}"
                )
            });
        }
        let first = *self.leaders.entry(term).or_insert(node);
        judge.demand(Invariant::I75, first == node, || format!("n{first} and n{node} both lead term {term}"));
    }

    pub fn on_durable(
        &mut self,
        judge: &mut Judge,
        node: u32,
        (term, vote): (u64, Option<u64>),
        new: &[(u64, u64)],
        entries: &Entries,
    ) {
        let Consensus { members, before, .. } = self;
        let member = members.entry(node).or_default();
        let known = member.durable_term;
        judge.demand(Invariant::K03, term >= known, || {
            format!("the durable term goes back from {known} to {term}")
        });
        member.durable_term = member.durable_term.max(term);
        if let Some(vote) = vote {
            let first = *member.votes.entry(term).or_insert(vote);
            judge.demand(Invariant::K02, first == vote, || {
                format!("it votes for {first} and then for {vote} in term {term}")
            });
        }
        let Some((first, _)) = new.first().copied() else { return };
        if first > member.last() + 1 {
            let last = member.last();
            judge.violated(Invariant::I75, format!("entry {first} becomes durable, the log ends at {last}"));
            member.terms.resize((first - member.base - 1) as usize, None);
        }
        for (index, term) in new.iter().copied() {
            append(judge, member, before, (index, term), entries);
        }
    }

    pub fn on_promise(&mut self, judge: &mut Judge, node: u32, (to, term): (u64, u64), promise: Promise) {
        let member = self.member(node);
        match promise {
            Promise::Vote => {
                let vote = member.votes.get(&term).copied();
                judge.demand(Invariant::K02, vote == Some(to), || {
                    format!("it tells {to} that it votes for it in term {term}; durable is {vote:?}")
                });
            }
            Promise::Holds { index } => {
                let (durable, last) = (member.durable_term, member.last());
                judge.demand(Invariant::K02, term <= durable && index <= last, || {
                    format!(
                        "it promises {to} in term {term} to hold all up to {index}; durable are term {durable} and \
                         entries up to {last}"
                    )
                });
                // What was found on the disk is as good as what was written, once it was promised.
                member.certain = member.certain.max(index.min(last));
            }
        }
    }

    /// A transaction is applied for the first time. Its index and term.
    pub fn on_first_applied(
        &self,
        judge: &mut Judge,
        contract: &CoordinatorContract,
        (index, term): (u64, u64),
        entries: &Entries,
    ) {
        let before = entries.term(index - 1).unwrap_or(0);
        judge.demand(Invariant::I75, before <= term, || {
            format!("entry {index} of term {term} is applied after one of term {before}")
        });
        let holders = self.members.values().filter(|member| member.holds(index, term)).count();
        judge.demand(Invariant::K01, holders >= contract.majority(), || {
            let members = contract.members;
            format!("entry {index} of term {term} is applied, but durable only on {holders} of {members}")
        });
    }

    /// A member has applied a transaction.
    pub fn on_applied(&mut self, judge: &mut Judge, node: u32, zxid: i64) {
        let member = self.member(node);
        let due = member.applied + 1;
        judge.demand(Invariant::I75, zxid == due, || format!("it applies {zxid}, its turn is {due}"));
        member.applied = zxid;
    }

    pub fn on_snapshot_taken(&mut self, judge: &mut Judge, node: u32, index: u64) {
        let member = self.member(node);
        let (before, applied) = (member.snapshot, member.applied);
        judge.demand(Invariant::K03, index >= before && index as i64 <= applied, || {
            format!("a snapshot at {index}, with one at {before} before it and {applied} applied")
        });
        member.snapshot = member.snapshot.max(index);
    }

    pub fn on_snapshot_installed(&mut self, judge: &mut Judge, node: u32, index: u64) {
        let member = self.member(node);
        let applied = member.applied;
        judge.demand(Invariant::K03, index as i64 >= applied, || {
            format!("a snapshot at {index} replaces a state at {applied}")
        });
        member.applied = index as i64;
        member.snapshot = index;
        member.base = index;
        member.terms.clear();
        member.certain = index;
    }

    /// The member that leads, as a majority says.
    pub fn leader(&self, contract: &CoordinatorContract) -> Option<u32> {
        let leads = |member: &&Member| member.runs && member.role == Some(Role::Leader);
        let leader = self.members.values().filter(leads).max_by_key(|member| member.term)?;
        let follows = |member: &&Member| {
            member.runs
                && member.term == leader.term
                && (member.leader == Some(leader.id) || member.id == leader.id)
        };
        let followers = self.members.values().filter(follows).count();
        let node = self.members.iter().find(|(_, member)| member.id == leader.id)?.0;
        (followers >= contract.majority()).then_some(*node)
    }
}

/// Whether everything that was durable, and could not be replaced since, is on the disk.
fn check_start(judge: &mut Judge, member: &Member, start: Start, entries: &Entries) {
    judge.demand(Invariant::K03, start.term >= member.durable_term, || {
        format!("it starts in term {}, {} was durable", start.term, member.durable_term)
    });
    if let Some(vote) = member.votes.get(&start.term) {
        judge.demand(Invariant::K03, start.vote == Some(*vote), || {
            format!("it starts with the vote {:?} in term {}, {vote} was durable", start.vote, start.term)
        });
    }
    judge.demand(Invariant::K03, start.snapshot >= member.snapshot, || {
        format!("it starts from the snapshot {}, the one at {} was durable", start.snapshot, member.snapshot)
    });
    let last = start.last.max(start.snapshot);
    judge.demand(Invariant::K03, start.first <= start.snapshot + 1 || start.first > start.last, || {
        format!("its log begins at {}, its snapshot ends at {}", start.first, start.snapshot)
    });
    // Nobody can replace what is committed, and no leader replaces what it has written itself.
    let certain = member.certain;
    let same =
        |index: &u64| *index <= member.base || member.term_of(*index).flatten() == entries.term(*index);
    let committed = (0..=entries.last_index().min(certain)).rev().find(same).unwrap_or(0);
    let mut of_this_term = (committed.max(member.base) + 1..=certain).rev();
    let own = of_this_term.find(|index| member.term_of(*index) == Some(Some(start.term)));
    let (invariant, due) = match own {
        Some(own) if last >= committed => (Invariant::K03, own),
        _ => (Invariant::I76, committed),
    };
    if due > 0 {
        judge.demand(invariant, last >= due, || {
            format!("it starts with entries up to {last}, but those up to {due} were durable")
        });
    }
}

fn append(
    judge: &mut Judge,
    member: &mut Member,
    before: &mut BTreeMap<(u64, u64), u64>,
    (index, term): (u64, u64),
    entries: &Entries,
) {
    if index <= member.base {
        return;
    }
    if let (Some(Some(old)), Some(committed)) = (member.term_of(index), entries.term(index)) {
        judge.demand(Invariant::I75, old != committed || term == committed, || {
            format!("entry {index} of term {old} was applied, and is replaced by one of term {term}")
        });
    }
    member.cut(index - 1);
    if let Some(previous) = member.term_of(index - 1).flatten() {
        let known = *before.entry((index, term)).or_insert(previous);
        judge.demand(Invariant::I75, previous == known && previous <= term, || {
            format!("entry {index} of term {term} follows one of term {previous} here, of {known} elsewhere")
        });
    }
    member.terms.push(Some(term));
    member.certain = index;
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant, Stop,
        coordinator::{
            CoordinatorContract,
            testing::{NODES, Run, create, digest},
        },
    };
    use sillon_coordinator::{
        observe::{Observation, Promise, Role},
        types::Zxid,
    };

    fn with_entries(count: u64) -> Run {
        let run = Run::new();
        (0..count).for_each(|_| run.begin_term());
        run
    }

    #[test]
    fn all_goes_well() {
        let run = with_entries(3);
        run.join(9);
        run.write(9, &create("/a"));
        let last = run.zxid.get() as u64;
        for node in NODES {
            run.stop(node, Stop::PowerLost);
            run.start(node, (1, Some(1)), (1, last));
        }
        run.elect(2, 2);
        for node in NODES {
            run.tell(
                node,
                Observation::SnapshotInstalled { zxid: Zxid(last as i64), digest: digest(last as i64) },
            );
        }
        let zxid = run.replicate();
        run.apply(2, zxid, None, 0);
        run.assert_legal(&[Invariant::I75, Invariant::I76, Invariant::K01, Invariant::K02, Invariant::K03]);
    }

    #[test]
    fn two_leaders_in_a_term() {
        let run = Run::new();
        run.lead(2);
        run.assert_violated(Invariant::I75);
    }

    #[test]
    fn a_leader_without_what_was_applied() {
        let run = Run::new();
        run.zxid.set(1);
        for node in [1, 3] {
            run.durable(node, &[(1, 1)]);
        }
        run.apply(1, 1, None, 0);
        run.elect(2, 2);
        run.assert_violated(Invariant::I75);
    }

    #[test]
    fn logs_that_do_not_match() {
        let run = Run::new();
        run.durable(1, &[(1, 1), (2, 1)]);
        run.term.set(2);
        run.durable(2, &[(1, 2)]);
        run.durable(2, &[(2, 1)]);
        run.assert_violated(Invariant::I75);
    }

    #[test]
    fn what_was_not_applied_may_be_replaced() {
        let run = with_entries(1);
        run.durable(3, &[(2, 1), (3, 1)]);
        run.elect(1, 2);
        run.begin_term();
        run.assert_legal(&[Invariant::I75]);
    }

    #[test]
    fn what_was_applied_is_replaced() {
        let run = with_entries(2);
        run.elect(1, 2);
        run.durable(3, &[(2, 2)]);
        run.assert_violated(Invariant::I75);
    }

    #[test]
    fn members_apply_different_things() {
        let run = Run::new();
        let zxid = run.replicate();
        run.apply(1, zxid, None, 0);
        let command = run.command(sillon_coordinator::command::Action::NameEnsemble { ensemble: 5 });
        run.apply(2, zxid, Some(&command), 0);
        run.assert_violated(Invariant::I75);
    }

    #[test]
    fn a_transaction_is_left_out() {
        let run = with_entries(1);
        run.replicate();
        let zxid = run.replicate();
        run.apply(1, zxid, None, 0);
        run.assert_violated(Invariant::I75);
    }

    #[test]
    fn applied_before_a_majority_has_it() {
        let run = Run::new();
        run.durable(1, &[(1, 1)]);
        run.apply(1, 1, None, 0);
        run.assert_violated(Invariant::K01);
    }

    #[test]
    fn promises_before_they_are_durable() {
        let run = Run::new();
        run.durable(2, &[(1, 1)]);
        run.promise(2, 1, Promise::Holds { index: 1 });
        run.assert_legal(&[Invariant::K02]);
        run.promise(2, 1, Promise::Holds { index: 2 });
        run.assert_violated(Invariant::K02);
        let run = Run::new();
        run.term.set(2);
        run.promise(2, 3, Promise::Vote);
        run.assert_violated(Invariant::K02);
    }

    #[test]
    fn two_votes_in_a_term() {
        let run = Run::new();
        run.vote_durably(2, 3);
        run.assert_violated(Invariant::K02);
    }

    #[test]
    fn the_term_goes_back() {
        let run = Run::new();
        run.elect(1, 3);
        run.term.set(2);
        run.role(2, Role::Follower, None);
        run.assert_violated(Invariant::K03);
    }

    #[test]
    fn a_vote_is_forgotten() {
        let run = Run::new();
        run.stop(2, Stop::PowerLost);
        run.start(2, (1, None), (1, 0));
        run.assert_violated(Invariant::K03);
    }

    #[test]
    fn a_committed_entry_is_lost_with_the_power() {
        let run = with_entries(2);
        run.stop(2, Stop::PowerLost);
        run.start(2, (1, Some(1)), (1, 1));
        run.assert_violated(Invariant::I76);
    }

    #[test]
    fn an_entry_that_was_promised_is_lost() {
        let run = with_entries(1);
        run.replicate();
        run.stop(2, Stop::PowerLost);
        run.start(2, (1, Some(1)), (1, 1));
        run.assert_violated(Invariant::K03);
    }

    #[test]
    fn what_was_found_counts_once_it_was_promised() {
        let restarted = |promised| {
            let run = with_entries(1);
            run.stop(2, Stop::Killed);
            run.start(2, (1, Some(1)), (1, 2));
            if promised {
                run.promise(2, 1, Promise::Holds { index: 2 });
            }
            run.stop(2, Stop::PowerLost);
            run.start(2, (1, Some(1)), (1, 1));
            run
        };
        restarted(false).assert_legal(&[Invariant::K03]);
        let run = restarted(true);
        assert_eq!(run.oracle.violations(), [], "its term is not known, so that it may have been replaced");
    }

    #[test]
    fn a_damaged_disk_excuses() {
        let run = with_entries(2);
        run.oracle.disk_fault(2, crate::oracle::DiskFault::Wiped);
        run.stop(2, Stop::PowerLost);
        run.start(2, (0, None), (1, 0));
        run.assert_legal(&[]);
    }

    #[test]
    fn snapshots_do_not_go_back() {
        let run = with_entries(4);
        run.tell(2, Observation::SnapshotTaken { zxid: Zxid(3), digest: digest(3) });
        run.stop(2, Stop::Killed);
        run.start_from(2, (1, Some(1)), (4, 4), 3);
        run.assert_legal(&[Invariant::K03, Invariant::K04]);
        run.stop(2, Stop::Killed);
        run.start_from(2, (1, Some(1)), (1, 4), 0);
        run.assert_violated(Invariant::K03);
    }

    #[test]
    fn one_member_needs_nobody_else() {
        let run = Run::without_members(CoordinatorContract { members: 1, ..CoordinatorContract::default() });
        run.start(1, (0, None), (1, 0));
        run.term.set(1);
        run.vote_durably(1, 1);
        run.lead(1);
        assert_eq!(run.oracle.leader(), Some(1));
        run.durable(1, &[(1, 1)]);
        run.apply(1, 1, None, 0);
        run.assert_legal(&[Invariant::K01]);
    }
}
