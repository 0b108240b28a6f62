//! What types cannot say about a scenario: ranges, combinations that cannot be, names that must exist.
//!
//! Owns the rules. Every error points at the value that breaks one. Never changes what a file says.

use super::{
    error::{ScenarioError, Source, nearest, suggestion},
    model::{Acks, Expect, File, Phases, Swarm, WrittenParameters},
    properties::Keys,
    units::{Between, Bytes, Count, human_bytes, human_nanos},
};
use crate::{
    faults::{FaultKind, FaultRate, Machines, Parameter, Ranges, ScriptedFault, Target},
    oracle::Invariant,
};
use std::ops::Range;
use toml::Spanned;

const SECOND: u64 = 1_000_000_000;
/// The longest phase: a simulated day. Longer runs are several seeds.
const PHASE_MAX_NANOS: u64 = 86_400 * SECOND;
/// A value carries the writer's number and its counter, so that each record is unique.
const VALUE_MIN_BYTES: u64 = 32;
/// What a batch has beside its records, and a record beside its value, with room to spare.
const BATCH_OVERHEAD_BYTES: u64 = 128;
const RECORD_OVERHEAD_BYTES: u64 = 64;
/// Kafka's default for the largest request, with room for what surrounds a value.
const VALUE_MAX_BYTES: u64 = 900 * 1024;

/// What `[expect]` says, with its names resolved.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// How many seeds a campaign has to have before any of this is demanded.
    pub seeds: u64,
    /// Fault kinds that must have happened in a campaign.
    pub faults: Vec<FaultKind>,
    /// Invariants that must have been evaluated.
    pub invariants: Vec<Invariant>,
    /// The invariant that some seed must violate.
    pub violation: Option<Invariant>,
}

/// The names of a checked file, resolved.
pub(super) struct Resolved {
    pub rates: Vec<FaultRate>,
    pub script: Vec<ScriptedFault>,
    pub expect: Expectations,
}

/// Checks the whole file, in the order in which a person reads it.
pub(super) fn check(source: &Source, file: &File) -> Result<Resolved, ScenarioError> {
    let checker = Checker { source, file };
    checker.name()?;
    checker.cluster()?;
    checker.ensemble()?;
    checker.topics()?;
    checker.workload()?;
    checker.world()?;
    checker.phases()?;
    let rates = checker.rates()?;
    let script = checker.script()?;
    checker.swarm()?;
    checker.batches_fit()?;
    let expect = checker.expect(&rates, &script)?;
    Ok(Resolved { rates, script, expect })
}

pub(super) struct Checker<'a> {
    pub source: &'a Source,
    pub file: &'a File,
}

pub(super) type Checked<T = ()> = Result<T, ScenarioError>;

impl Checker<'_> {
    pub(super) fn fail<T>(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Checked<T> {
        Err(self.source.error(span, message, hint))
    }

    pub(super) fn count(&self, value: &Spanned<Count>, from: u64, to: u64, what: &str) -> Checked {
        self.number(value.span(), value.get_ref().0, from, to, what)
    }

    pub(super) fn number(&self, span: Range<usize>, number: u64, from: u64, to: u64, what: &str) -> Checked {
        if (from..=to).contains(&number) {
            return Ok(());
        }
        self.fail(span, format!("{number} is out of range for {what}: {from} to {to}"), None)
    }

    fn name(&self) -> Checked {
        let name = &self.file.name;
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.get_ref().is_empty() || !name.get_ref().chars().all(legal) {
            let hint = "a name is made of a-z, 0-9 and `-`".to_string();
            return self.fail(
                name.span(),
                format!("`{}` cannot name a scenario", name.get_ref()),
                Some(hint),
            );
        }
        let stem = std::path::Path::new(&self.source.name).file_stem().and_then(|stem| stem.to_str());
        if let Some(stem) = stem.filter(|stem| *stem != name.get_ref()) {
            let message = format!("the name `{}` is not the file's: `{stem}`", name.get_ref());
            return self.fail(
                name.span(),
                message,
                Some(format!("write name = \"{stem}\", or rename the file")),
            );
        }
        if self.file.description.get_ref().trim().is_empty() {
            return self.fail(self.file.description.span(), "the description is empty", None);
        }
        Ok(())
    }

    /// Tables that mean something only to brokers.
    pub(super) fn no_brokers(&self) -> Checked {
        if self.file.brokers() > 0 {
            return Ok(());
        }
        let tables = [
            "topics",
            "workload",
            "admin",
            "groups",
            "swarm.cluster",
            "swarm.topics",
            "swarm.workload",
            "swarm.groups",
            "swarm.topic_properties",
            "swarm.broker_properties",
        ];
        for table in tables {
            if let Some(span) = self.source.header(table) {
                let hint = "add [cluster], or remove this".to_string();
                return self.fail(span, format!("[{table}] means nothing without brokers"), Some(hint));
            }
        }
        Ok(())
    }

    /// The servers that every run has. A swarm may draw fewer than there are at most.
    pub(super) fn machines(&self) -> Machines {
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let members = |ensemble: &super::ensemble::Ensemble| {
            let swarm = self.file.swarm.ensemble.members.as_ref();
            let own = ensemble.members.get_ref().0;
            swarm.map_or(own, |list| list.get_ref().iter().map(|members| members.0).min().unwrap_or(own))
        };
        Machines {
            brokers: count(self.brokers_range().0),
            members: self.file.ensemble.as_ref().map_or(0, |ensemble| count(members(ensemble))),
        }
    }

    fn workload(&self) -> Checked {
        let workload = &self.file.workload;
        self.count(&workload.producers, 1, 32, "`producers`")?;
        self.count(&workload.readers, 0, 32, "`readers`")?;
        self.rate(workload.records_per_second.span(), *workload.records_per_second.get_ref())?;
        self.batch_records(workload.batch_records.span(), *workload.batch_records.get_ref())?;
        self.value_bytes(workload.value_bytes.span(), *workload.value_bytes.get_ref())?;
        self.count(&workload.in_flight, 1, 64, "`in_flight`")?;
        if workload.compression.get_ref().is_empty() {
            return self.fail(
                workload.compression.span(),
                "the list of compressions is empty",
                Some(NONE_HINT.into()),
            );
        }
        let (request, delivery) = (&workload.request_timeout, &workload.delivery_timeout);
        if request.get_ref().0 == 0 {
            return self.fail(request.span(), "a request timeout of nothing never lets a request end", None);
        }
        if delivery.get_ref() < request.get_ref() {
            let hint = "the delivery timeout covers a request and its retries".to_string();
            let span = if delivery.span().is_empty() { request.span() } else { delivery.span() };
            let (delivery, request) = (human_nanos(delivery.get_ref().0), human_nanos(request.get_ref().0));
            let message = format!("delivery_timeout {delivery} is shorter than request_timeout {request}");
            return self.fail(span, message, Some(hint));
        }
        self.idempotence()
    }

    /// An idempotent producer's limits (KIP-98), for the file's values and for every choice of the swarm.
    fn idempotence(&self) -> Checked {
        let (workload, swarm) = (&self.file.workload, &self.file.swarm.workload);
        let on = swarm
            .idempotence
            .as_ref()
            .map_or(*workload.idempotence.get_ref(), |list| list.get_ref().contains(&true));
        if !on {
            return Ok(());
        }
        let acks = swarm.acks.as_ref().map_or((workload.acks.span(), *workload.acks.get_ref()), |list| {
            (list.span(), list.get_ref().iter().copied().find(|acks| *acks != Acks::All).unwrap_or(Acks::All))
        });
        if acks.1 != Acks::All {
            let hint = "write acks = \"all\" or idempotence = false".to_string();
            return self.fail(acks.0, "an idempotent producer needs acks = \"all\"", Some(hint));
        }
        let in_flight = swarm
            .in_flight
            .as_ref()
            .map_or((workload.in_flight.span(), workload.in_flight.get_ref().0), |list| {
                (list.span(), list.get_ref().iter().map(|count| count.0).max().unwrap_or(1))
            });
        if in_flight.1 > 5 {
            let hint = "the broker remembers a producer's last five batches, no more".to_string();
            return self.fail(
                in_flight.0,
                "an idempotent producer has at most 5 requests in flight",
                Some(hint),
            );
        }
        Ok(())
    }

    fn rate(&self, span: Range<usize>, records: f64) -> Checked {
        if records.is_finite() && (0.1..=100_000.0).contains(&records) {
            return Ok(());
        }
        self.fail(span, format!("{records} records per second is out of range: 0.1 to 100000"), None)
    }

    fn batch_records(&self, span: Range<usize>, range: Between<Count>) -> Checked {
        if range.from.0 >= 1 && range.to.0 <= 1000 {
            return Ok(());
        }
        self.fail(span, "a batch has 1 to 1000 records", None)
    }

    fn value_bytes(&self, span: Range<usize>, range: Between<Bytes>) -> Checked {
        if range.from.0 < VALUE_MIN_BYTES {
            let hint = "a value carries its writer and a counter, so that each record is unique".to_string();
            return self.fail(span, format!("values have at least {VALUE_MIN_BYTES}B"), Some(hint));
        }
        if range.to.0 > VALUE_MAX_BYTES {
            return self.fail(span, format!("values have at most {}", human_bytes(VALUE_MAX_BYTES)), None);
        }
        Ok(())
    }

    fn world(&self) -> Checked {
        let (network, disk, clocks) = (&self.file.network, &self.file.disk, &self.file.clocks);
        for latency in [&network.latency, &disk.read_latency, &disk.write_latency, &disk.sync_latency] {
            if latency.get_ref().to.0 > 60 * SECOND {
                return self.fail(
                    latency.span(),
                    "a latency is at most 60s; use a fault for longer ones",
                    None,
                );
            }
        }
        for (size, least, what) in [
            (&network.bytes_per_second, 1024, "a network's bytes_per_second"),
            (&network.buffer_bytes, 1024, "a connection's buffer"),
            (&disk.capacity_bytes, 1 << 20, "a disk's capacity"),
        ] {
            if size.get_ref().0 < least {
                let message = format!("{} is too small for {what}", human_bytes(size.get_ref().0));
                return self.fail(size.span(), message, Some(format!("at least {}", human_bytes(least))));
            }
        }
        let drift = clocks.drift_parts_per_million.get_ref();
        if drift.from.0.abs().max(drift.to.0.abs()) > 500_000 {
            let span = clocks.drift_parts_per_million.span();
            return self.fail(span, "a drift is at most 500000 parts per million (half as fast again)", None);
        }
        Ok(())
    }

    fn phases(&self) -> Checked {
        let Phases { safety, heal, liveness, .. } = &self.file.phases;
        for (phase, least, name) in [(safety, 1, "safety"), (heal, 0, "heal"), (liveness, 1, "liveness")] {
            let length = phase.get_ref().0;
            if !(least * SECOND..=PHASE_MAX_NANOS).contains(&length) {
                let message =
                    format!("{} is out of range for the {name} phase: {least}s to 24h", human_nanos(length));
                return self.fail(phase.span(), message, None);
            }
        }
        self.healing()
    }

    fn kind(&self, name: &Spanned<String>) -> Checked<FaultKind> {
        if let Some(kind) = FaultKind::from_name(name.get_ref()) {
            return Ok(kind);
        }
        let known: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
        let hint = suggestion(name.get_ref(), &known, "fault kinds");
        self.fail(name.span(), format!("there is no fault `{}`", name.get_ref()), Some(hint))
    }

    fn rates(&self) -> Checked<Vec<FaultRate>> {
        let mut rates = Vec::new();
        for (name, rate) in &self.file.faults {
            let kind = self.kind(name)?;
            let per_minute = *rate.per_minute.get_ref();
            if !(per_minute.is_finite() && per_minute > 0.0 && per_minute <= 600.0) {
                let message = format!("{per_minute} is out of range for per_minute: above 0, up to 600");
                let hint = "to switch a fault off, remove its table".to_string();
                return self.fail(rate.per_minute.span(), message, Some(hint));
            }
            let ranges = self.ranges(kind, &rate.parameters())?;
            let on = rate.on.as_ref().map_or(Target::All, |on| *on.get_ref());
            let on = rate.machines.as_ref().map_or(on, |all| *all.get_ref());
            for written in [&rate.on, &rate.machines].into_iter().flatten() {
                if self.machines().of(on).is_empty() {
                    return self.fail(written.span(), "this scenario has no such machines", None);
                }
            }
            if let (Some(target), Some(_)) = (&rate.target, rate.on.as_ref().or(rate.machines.as_ref())) {
                let hint = "keep one of `target`, `on` and `machines`".to_string();
                return self.fail(target.span(), "the machine is given twice", Some(hint));
            }
            let role = rate.target.as_ref().map(|target| *target.get_ref());
            if let Some(target) = &rate.target {
                self.role(target.span(), *target.get_ref(), kind)?;
            }
            if let Some(machines) = &rate.machines {
                self.is_single(machines.span(), kind)?;
            }
            rates.push(FaultRate {
                kind,
                per_minute,
                on,
                role,
                all_at_once: rate.machines.is_some(),
                ranges,
            });
        }
        Ok(rates)
    }

    fn script(&self) -> Checked<Vec<ScriptedFault>> {
        let mut script = Vec::new();
        for step in &self.file.script {
            let kind = self.kind(&step.fault)?;
            let (at, safety) = (step.at.get_ref().0, self.file.phases.safety.get_ref().0);
            if at >= safety {
                let message = format!(
                    "{} is after the safety phase, which ends at {}",
                    human_nanos(at),
                    human_nanos(safety)
                );
                let hint =
                    "faults strike in the safety phase only: make `safety` in [phases] longer".to_string();
                return self.fail(step.at.span(), message, Some(hint));
            }
            let place = self.place(step, kind)?;
            let ranges = self.ranges(kind, &step.parameters())?;
            script.push(ScriptedFault { at_ns: at, place, kind, ranges });
        }
        Ok(script)
    }

    /// A fault's parameters: what is written where the kind has such a parameter, else the kind's own defaults.
    fn ranges(&self, kind: FaultKind, written: &WrittenParameters) -> Checked<Ranges> {
        let mut ranges = Ranges::defaults(kind);
        let spans = [
            (Parameter::Duration, written.duration.as_ref().map(Spanned::span)),
            (Parameter::Latency, written.latency.as_ref().map(Spanned::span)),
            (Parameter::By, written.by.as_ref().map(Spanned::span)),
            (Parameter::PartsPerMillion, written.parts_per_million.as_ref().map(Spanned::span)),
            (Parameter::Operations, written.operations.as_ref().map(Spanned::span)),
            (Parameter::FreeBytes, written.free_bytes.as_ref().map(Spanned::span)),
            (Parameter::Direction, written.direction.as_ref().map(Spanned::span)),
            (Parameter::Shape, written.shape.as_ref().map(Spanned::span)),
        ];
        for (parameter, span) in spans {
            let Some(span) = span else { continue };
            if !kind.parameters().iter().any(|(known, _, _)| *known == parameter) {
                let message = format!("`{}` means nothing to the fault `{}`", parameter.name(), kind.name());
                let known: Vec<&str> = kind.parameters().iter().map(|(known, _, _)| known.name()).collect();
                let hint = match known.is_empty() {
                    true => "it has no parameters".to_string(),
                    false => format!("its parameters: {}", known.join(", ")),
                };
                return self.fail(span, message, Some(hint));
            }
        }
        overwrite(&mut ranges.duration_ns, &written.duration, |nanos| nanos.0);
        overwrite(&mut ranges.latency_ns, &written.latency, |nanos| nanos.0);
        overwrite(&mut ranges.operations, &written.operations, |count| count.0);
        overwrite(&mut ranges.free_bytes, &written.free_bytes, |bytes| bytes.0);
        overwrite(&mut ranges.by_ns, &written.by, |nanos| nanos.0);
        overwrite(&mut ranges.parts_per_million, &written.parts_per_million, |count| count.0);
        ranges.direction =
            written.direction.as_ref().map(|direction| *direction.get_ref()).or(ranges.direction);
        ranges.shape = written.shape.as_ref().map_or(ranges.shape, |shape| *shape.get_ref());
        let drift = ranges.parts_per_million.from.abs().max(ranges.parts_per_million.to.abs());
        if let Some(written) = written.parts_per_million.as_ref().filter(|_| drift > 500_000) {
            return self.fail(written.span(), "a drift is at most 500000 parts per million", None);
        }
        if let Some(duration) =
            written.duration.as_ref().filter(|duration| duration.get_ref().to.0 > 3600 * SECOND)
        {
            return self.fail(duration.span(), "a fault lasts at most an hour", None);
        }
        Ok(ranges)
    }

    fn swarm(&self) -> Checked {
        let Swarm { broker_properties, topic_properties, workload, network, disk, .. } = &self.file.swarm;
        for (properties, keys) in [(broker_properties, Keys::Broker), (topic_properties, Keys::Topic)] {
            self.swarm_properties(properties, keys)?;
        }
        self.choices(&workload.producers)?;
        self.choices(&workload.readers)?;
        self.choices(&workload.acks)?;
        self.choices(&workload.idempotence)?;
        self.choices(&workload.in_flight)?;
        self.choices(&workload.compression)?;
        self.choices(&workload.request_timeout)?;
        self.choices(&network.latency)?;
        self.choices(&network.buffer_bytes)?;
        self.choices(&disk.write_latency)?;
        self.choices(&disk.sync_latency)?;
        for (span, records) in self.choices(&workload.records_per_second)? {
            self.rate(span, records)?;
        }
        for (span, range) in self.choices(&workload.batch_records)? {
            self.batch_records(span, range)?;
        }
        for (span, range) in self.choices(&workload.value_bytes)? {
            self.value_bytes(span, range)?;
        }
        for list in [&workload.producers, &workload.in_flight].into_iter().flatten() {
            if list.get_ref().iter().any(|count| !(1..=32).contains(&count.0)) {
                return self.fail(list.span(), "each choice is from 1 to 32", None);
            }
        }
        if let Some(list) =
            workload.compression.as_ref().filter(|list| list.get_ref().iter().any(Vec::is_empty))
        {
            return self.fail(list.span(), "one of the choices is an empty list", Some(NONE_HINT.into()));
        }
        Ok(())
    }

    /// The largest batch that may be drawn must fit into the smallest segment, or every producer with it is refused.
    fn batches_fit(&self) -> Checked {
        let (workload, swarm) = (&self.file.workload, &self.file.swarm);
        let largest =
            |own: u64, choices: Option<Vec<u64>>| choices.unwrap_or_else(|| vec![own]).into_iter().max();
        let records = swarm.workload.batch_records.as_ref();
        let records = records.map(|list| list.get_ref().iter().map(|range| range.to.0).collect());
        let records = largest(workload.batch_records.get_ref().to.0, records).unwrap_or(1);
        let value = swarm.workload.value_bytes.as_ref();
        let value = value.map(|list| list.get_ref().iter().map(|range| range.to.0).collect());
        let value = largest(workload.value_bytes.get_ref().to.0, value).unwrap_or(0);
        let batch = BATCH_OVERHEAD_BYTES + records * (RECORD_OVERHEAD_BYTES + value);
        for (name, default) in [("segment.bytes", 1 << 30), ("max.message.bytes", 1_048_588)] {
            let chosen = swarm.topic_properties.iter().find(|(known, _)| known.get_ref() == name);
            let written = self.file.topics.properties.iter().find(|(known, _)| known.get_ref() == name);
            let limits: Vec<u64> = match (chosen, written) {
                (Some((_, values)), _) => {
                    values.get_ref().iter().filter_map(|value| value.0.parse().ok()).collect()
                }
                (None, Some((_, value))) => value.get_ref().0.parse().into_iter().collect(),
                (None, None) => vec![default],
            };
            let limit = limits.into_iter().min().unwrap_or(default);
            if batch > limit {
                let span = match &swarm.workload.batch_records {
                    Some(list) => list.span(),
                    None => workload.batch_records.span(),
                };
                let message = format!(
                    "a batch of {records} records of {} does not fit into `{name}` = {limit}",
                    human_bytes(value)
                );
                let hint = "brokers refuse such a batch: make batches or values smaller, or the limit larger";
                return self.fail(span, message, Some(hint.to_string()));
            }
        }
        Ok(())
    }

    pub(super) fn choices<T: Clone>(
        &self,
        list: &Option<Spanned<Vec<T>>>,
    ) -> Checked<Vec<(Range<usize>, T)>> {
        match list {
            None => Ok(Vec::new()),
            Some(list) if list.get_ref().is_empty() => {
                self.fail(list.span(), "there is nothing to choose from: the list is empty", None)
            }
            Some(list) => Ok(list.get_ref().iter().map(|choice| (list.span(), choice.clone())).collect()),
        }
    }

    fn expect(&self, rates: &[FaultRate], script: &[ScriptedFault]) -> Checked<Expectations> {
        let Expect { seeds, faults, invariants, violation } = &self.file.expect;
        self.count(seeds, 1, 1_000_000, "`seeds`")?;
        let mut expect = Expectations {
            seeds: seeds.get_ref().0,
            faults: Vec::new(),
            invariants: Vec::new(),
            violation: None,
        };
        for name in faults {
            let kind = self.kind(name)?;
            let named = rates.iter().map(|rate| rate.kind).chain(script.iter().map(|step| step.kind));
            if !named.flat_map(FaultKind::consists_of).any(|injected| injected == kind) {
                let message = format!("`{}` is expected but this scenario never injects it", kind.name());
                let hint = format!("add [faults.{}] with a rate, or a step to the script", kind.name());
                return self.fail(name.span(), message, Some(hint));
            }
            expect.faults.push(kind);
        }
        for name in invariants {
            expect.invariants.push(self.invariant(name)?);
        }
        expect.violation = violation.as_ref().map(|name| self.invariant(name)).transpose()?;
        Ok(expect)
    }

    fn invariant(&self, name: &Spanned<String>) -> Checked<Invariant> {
        if let Ok(invariant) = name.get_ref().parse::<Invariant>() {
            return Ok(invariant);
        }
        let known: Vec<&str> = Invariant::ALL.iter().map(|invariant| invariant.name()).collect();
        let hint = match nearest(name.get_ref(), known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? `sillon-sim list invariants` shows all"),
            None => "`sillon-sim list invariants` shows all".to_string(),
        };
        self.fail(name.span(), format!("there is no invariant `{}`", name.get_ref()), Some(hint))
    }
}

fn overwrite<Q: Copy, T>(
    into: &mut Between<T>,
    written: &Option<Spanned<Between<Q>>>,
    number: impl Fn(Q) -> T,
) {
    if let Some(written) = written {
        *into = Between { from: number(written.get_ref().from), to: number(written.get_ref().to) };
    }
}

const NONE_HINT: &str = "for no compression write [\"none\"]";
