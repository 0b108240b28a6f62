//! The recorded decisions of a run. Owns their compact form; draws nothing.
//!
//! For each stream: a table of *sites* (what was asked, from which range) and a string of bytes with two
//! LEB128 numbers for each value: the site, and the value above the site's lowest.

use super::Stream;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// What was asked: the name of the decision and its range, both ends included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// What the value is about.
    pub what: String,
    /// The lowest value.
    pub low: u64,
    /// The highest value.
    pub high: u64,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" from {}..={}", self.what, self.low, self.high)
    }
}

/// One recorded decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// What was asked.
    pub site: Site,
    /// What was answered.
    pub value: u64,
}

/// All recorded decisions of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tape {
    streams: Vec<StreamTape>,
}

impl Tape {
    /// A tape of these streams.
    pub fn new(streams: Vec<StreamTape>) -> Tape {
        Tape { streams }
    }

    /// What each stream holds.
    pub fn streams(&self) -> &[StreamTape] {
        &self.streams
    }

    /// Whether it holds no stream.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// How many decisions it holds.
    pub fn decisions(&self) -> u64 {
        self.streams.iter().map(|stream| stream.count).sum()
    }

    /// How many bytes the values take.
    pub fn bytes(&self) -> usize {
        self.streams.iter().map(|stream| stream.bytes.len()).sum()
    }

    /// Replaces the tape of one stream, or adds it.
    pub fn set(&mut self, stream: StreamTape) {
        self.streams.retain(|known| known.stream != stream.stream);
        self.streams.push(stream);
    }

    pub(super) fn take(&mut self, stream: Stream) -> StreamTape {
        match self.streams.iter().position(|tape| tape.stream == stream) {
            Some(position) => self.streams.swap_remove(position),
            None => StreamTape { stream, sites: Vec::new(), count: 0, bytes: Vec::new() },
        }
    }
}

/// The recorded decisions of one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamTape {
    stream: Stream,
    sites: Vec<Site>,
    count: u64,
    bytes: Vec<u8>,
}

impl StreamTape {
    /// Writes a tape from decisions, such as an edited list of them.
    pub fn from_draws(stream: Stream, draws: &[Draw]) -> StreamTape {
        let mut tape = StreamTape { stream, sites: Vec::new(), count: 0, bytes: Vec::new() };
        for draw in draws {
            let known = tape.sites.iter().position(|site| *site == draw.site);
            let site = known.unwrap_or_else(|| {
                tape.sites.push(draw.site.clone());
                tape.sites.len() - 1
            });
            write_number(&mut tape.bytes, site as u64);
            write_number(&mut tape.bytes, draw.value.saturating_sub(draw.site.low));
            tape.count += 1;
        }
        tape
    }

    /// The stream that it is of.
    pub fn stream(&self) -> Stream {
        self.stream
    }

    /// How many decisions it holds.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The decisions, in order. Ends early where the bytes are damaged.
    pub fn draws(&self) -> Vec<Draw> {
        let mut position = 0;
        let mut draws = Vec::new();
        while let Some((site, value)) = self.read(&mut position) {
            draws.push(Draw { site: site.clone(), value });
        }
        draws
    }

    fn read(&self, position: &mut usize) -> Option<(&Site, u64)> {
        let site = read_number(&self.bytes, position)?;
        let above = read_number(&self.bytes, position)?;
        let site = self.sites.get(usize::try_from(site).ok()?)?;
        let value = site.low.checked_add(above).filter(|value| *value <= site.high)?;
        Some((site, value))
    }
}

/// Records one stream.
#[derive(Default)]
pub(super) struct Writer {
    sites: BTreeMap<(&'static str, u64, u64), u64>,
    last: Option<((&'static str, u64, u64), u64)>,
    count: u64,
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn push(&mut self, what: &'static str, low: u64, high: u64, value: u64) {
        let key = (what, low, high);
        let site = match self.last {
            Some((last, site)) if last == key => site,
            _ => {
                let next = self.sites.len() as u64;
                *self.sites.entry(key).or_insert(next)
            }
        };
        self.last = Some((key, site));
        write_number(&mut self.bytes, site);
        write_number(&mut self.bytes, value - low);
        self.count += 1;
    }

    pub(super) fn finish(&self, stream: Stream) -> StreamTape {
        let mut sites: Vec<_> = self.sites.iter().collect();
        sites.sort_by_key(|(_, index)| **index);
        let sites = sites.into_iter().map(|((what, low, high), _)| Site {
            what: (*what).to_owned(),
            low: *low,
            high: *high,
        });
        StreamTape { stream, sites: sites.collect(), count: self.count, bytes: self.bytes.clone() }
    }
}

/// Replays one stream.
pub(super) struct Reader {
    tape: StreamTape,
    position: usize,
    index: u64,
}

impl Reader {
    pub(super) fn new(tape: StreamTape) -> Reader {
        Reader { tape, position: 0, index: 0 }
    }

    /// How many values were asked for.
    pub(super) fn index(&self) -> u64 {
        self.index
    }

    /// The next value, or what is recorded in its place. A decision that does not fit is used up all the same.
    pub(super) fn next(&mut self, what: &str, low: u64, high: u64) -> Result<u64, Option<Site>> {
        self.index += 1;
        let mut position = self.position;
        let Some((site, value)) = self.tape.read(&mut position) else { return Err(None) };
        self.position = position;
        if site.what == what && site.low == low && site.high == high {
            Ok(value)
        } else {
            Err(Some(site.clone()))
        }
    }
}

fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_number(bytes: &[u8], position: &mut usize) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*position)?;
        *position += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_survive_being_written_and_read() {
        let site = |what: &str, low, high| Site { what: what.to_owned(), low, high };
        let draws = vec![
            Draw { site: site("a", 0, u64::MAX), value: u64::MAX },
            Draw { site: site("b", 5, 500), value: 300 },
            Draw { site: site("a", 0, u64::MAX), value: 0 },
        ];
        let tape = StreamTape::from_draws(Stream::FaultPlan, &draws);
        assert_eq!(tape.draws(), draws);
        assert_eq!(tape.count(), 3);
    }

    #[test]
    fn a_damaged_tape_ends_early() {
        let damaged = StreamTape {
            stream: Stream::Clock,
            sites: Vec::new(),
            count: 9,
            bytes: vec![0xff, 0xff, 3, 1, 2],
        };
        assert_eq!(damaged.draws(), []);
        assert_eq!(Reader::new(damaged).next("x", 0, 1), Err(None));
    }
}
