//! The content of one file: what its readers see, and what is on the platter. Owns the difference between the two
//! and what a power failure makes of it; knows nothing of names, processes or time.
//!
//! The cache holds the whole file. For what is durable there is no second copy: it is the cache, up to
//! `durable_length`, except for pages that have a *shadow*, which is their durable content. A page gets its shadow
//! when it is first changed below the durable length, so appends copy nothing.
//!
//! A shadow is *dirty* while the next sync will write the page. It is *clean* when it will not, although cache and
//! platter differ: after a failed sync (the kernel marks the pages clean all the same), and after a misdirected write.
//! A page past the durable length that has no shadow is dirty.

use std::collections::BTreeMap;

/// The unit in which the cache is written back.
pub const PAGE_BYTES: usize = 4_096;
/// The unit that a disk writes whole.
pub(super) const SECTOR_BYTES: usize = 512;

/// The durable content of a page that differs in the cache. What it is short of a page is zeros.
struct Shadow {
    durable: Vec<u8>,
    dirty: bool,
}

/// A file's content.
#[derive(Default)]
pub(super) struct PageCache {
    cached: Vec<u8>,
    durable_length: usize,
    shadows: BTreeMap<usize, Shadow>,
}

/// What a sync that has begun will make durable: what was dirty then.
pub(super) struct SyncTicket {
    length: usize,
    pages: Vec<usize>,
}

/// What a power failure made of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLoss {
    /// Its path after the power failure.
    pub path: String,
    /// How long it was for its readers.
    pub cached_length: u64,
    /// How much of it was durable.
    pub durable_length: u64,
    /// How long it is now.
    pub length: u64,
    /// Pages that had not been synced and are there.
    pub kept_pages: u64,
    /// Pages that had not been synced and are as before, or zeros.
    pub lost_pages: u64,
    /// Pages of which some sectors are new and some old.
    pub torn_pages: u64,
}

/// Draws a number from a range, both ends included.
pub(super) type Draw<'a> = dyn FnMut(&'static str, u64, u64) -> u64 + 'a;

fn page_start(page: usize) -> usize {
    page * PAGE_BYTES
}

/// The pages of which the range has some byte.
fn pages(start: usize, end: usize) -> std::ops::Range<usize> {
    if start < end { start / PAGE_BYTES..end.div_ceil(PAGE_BYTES) } else { 0..0 }
}

impl PageCache {
    pub(super) fn len(&self) -> usize {
        self.cached.len()
    }

    pub(super) fn durable_length(&self) -> usize {
        self.durable_length
    }

    pub(super) fn content(&self) -> &[u8] {
        &self.cached
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.cached.len());
        let count = buffer.len().min(self.cached.len() - start);
        buffer[..count].copy_from_slice(&self.cached[start..start + count]);
        count
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        self.before_change(offset.min(self.cached.len()), end);
        if offset == self.cached.len() {
            self.cached.extend_from_slice(bytes);
            return;
        }
        if self.cached.len() < end {
            self.cached.resize(end, 0);
        }
        self.cached[offset..end].copy_from_slice(bytes);
    }

    pub(super) fn set_len(&mut self, length: usize) {
        let (low, high) = if length < self.cached.len() {
            (length, self.cached.len().max(self.durable_length))
        } else {
            (self.cached.len(), length)
        };
        self.before_change(low, high);
        self.cached.resize(length, 0);
    }

    /// Keeps what is durable of the pages that are about to change, and marks them dirty.
    fn before_change(&mut self, start: usize, end: usize) {
        for page in pages(start, end.min(self.durable_length)) {
            let from = page_start(page);
            let to = (from + PAGE_BYTES).min(self.durable_length).min(self.cached.len());
            let cached = &self.cached;
            self.shadows
                .entry(page)
                .or_insert_with(|| Shadow { durable: cached[from.min(to)..to].to_vec(), dirty: true });
        }
        if !self.shadows.is_empty() {
            for (_, shadow) in self.shadows.range_mut(pages(start, end)) {
                shadow.dirty = true;
            }
        }
    }

    pub(super) fn begin_sync(&self) -> SyncTicket {
        let dirty = self.shadows.iter().filter(|(_, shadow)| shadow.dirty);
        SyncTicket { length: self.cached.len(), pages: dirty.map(|(page, _)| *page).collect() }
    }

    /// The sync has succeeded. A page that was changed again meanwhile may have been written in its newer form.
    pub(super) fn complete_sync(&mut self, ticket: &SyncTicket) {
        for page in &ticket.pages {
            self.shadows.remove(page);
        }
        self.durable_length = ticket.length.min(self.cached.len());
        let durable_length = self.durable_length;
        self.shadows.retain(|page, shadow| {
            let limit = durable_length.saturating_sub(page_start(*page));
            shadow.durable.truncate(limit);
            limit > 0 || !shadow.dirty
        });
    }

    /// The sync has failed: nothing was written, yet no later sync will write it.
    pub(super) fn fail_sync(&mut self, ticket: &SyncTicket) {
        for page in &ticket.pages {
            if let Some(shadow) = self.shadows.get_mut(page) {
                shadow.dirty = false;
            }
        }
        for page in pages(self.durable_length, ticket.length) {
            let (from, cached) = (page_start(page), &self.cached);
            let to = self.durable_length.min(cached.len());
            let shadow = self.shadows.entry(page).or_insert_with(|| Shadow {
                durable: if from < to { cached[from..to].to_vec() } else { Vec::new() },
                dirty: false,
            });
            shadow.dirty = false;
        }
    }

    /// The sync reports success, but one page landed where another belongs. Gives both pages, intended and hit; nothing
    /// where the sync had nothing to write.
    pub(super) fn misdirect_sync(
        &mut self,
        ticket: &SyncTicket,
        draw: &mut Draw<'_>,
    ) -> Option<(usize, usize)> {
        let mut written = ticket.pages.clone();
        written.extend(pages(self.durable_length, ticket.length));
        written.retain(|page| page_start(*page) < self.cached.len());
        if written.is_empty() {
            self.complete_sync(ticket);
            return None;
        }
        let intended = written[draw("page that is misdirected", 0, written.len() as u64 - 1) as usize];
        let before = self.durable_page(intended);
        self.complete_sync(ticket);
        let count = self.durable_length.div_ceil(PAGE_BYTES).max(1);
        let hit = draw("page that is hit", 0, count as u64 - 1) as usize;
        let from = page_start(intended);
        let content = self.cached[from..(from + PAGE_BYTES).min(self.cached.len())].to_vec();
        self.shadows.insert(intended, Shadow { durable: before, dirty: false });
        if hit != intended {
            self.shadows.insert(hit, Shadow { durable: content, dirty: false });
        }
        Some((intended, hit))
    }

    /// The durable content of a page, at most a page long.
    fn durable_page(&self, page: usize) -> Vec<u8> {
        let from = page_start(page);
        let to = (from + PAGE_BYTES).min(self.durable_length);
        match self.shadows.get(&page) {
            Some(shadow) => shadow.durable[..shadow.durable.len().min(to.saturating_sub(from))].to_vec(),
            None if from < to => self.cached[from..to].to_vec(),
            None => Vec::new(),
        }
    }

    /// What the file would hold if power failed now and everything unsynced were lost.
    pub(super) fn durable_image(&self) -> Vec<u8> {
        let mut image = self.cached[..self.durable_length.min(self.cached.len())].to_vec();
        image.resize(self.durable_length, 0);
        for (page, shadow) in &self.shadows {
            let from = page_start(*page).min(image.len());
            let to = (from + PAGE_BYTES).min(image.len());
            let known = shadow.durable.len().min(to - from);
            image[from..from + known].copy_from_slice(&shadow.durable[..known]);
            image[from + known..to].fill(0);
        }
        image
    }

    /// Whether cache and platter hold the same.
    pub(super) fn is_durable(&self) -> bool {
        self.shadows.is_empty() && self.cached.len() == self.durable_length
    }

    /// Whether the page that holds `position` has the same content on the platter.
    pub(super) fn is_clean_at(&self, position: usize) -> bool {
        position < self.durable_length.min(self.cached.len())
            && !self.shadows.contains_key(&(position / PAGE_BYTES))
    }

    /// Changes a stored bit.
    pub(super) fn flip_bit(&mut self, position: usize, bit: u8) {
        self.cached[position] ^= 1 << (bit & 7);
    }

    /// Power fails: each unsynced page survives, is lost or torn, and the length is the old one, the new one or one
    /// between, as `draw` says. Afterwards everything that is there is durable.
    pub(super) fn power_loss(&mut self, draw: &mut Draw<'_>) -> FileLoss {
        let (cached, durable) = (self.cached.len(), self.durable_length);
        let mut loss = FileLoss {
            cached_length: cached as u64,
            durable_length: durable as u64,
            length: cached as u64,
            ..FileLoss::default()
        };
        if self.is_durable() {
            return loss;
        }
        // A third of the files loses all, a third keeps all that it can, the rest is mixed page by page.
        let fate = draw("fate of a file", 0, 5);
        let length = match fate {
            0 | 1 => durable,
            2 | 3 => cached,
            _ => match draw("length of a file", 0, 3) {
                0 => durable,
                1 => cached,
                _ => {
                    let share = draw("share of the length", 0, 999_999) as u128;
                    durable.min(cached) + (durable.abs_diff(cached) as u128 * share / 1_000_000) as usize
                }
            },
        };
        let mut image = self.durable_image();
        image.resize(durable.max(cached).next_multiple_of(PAGE_BYTES), 0);
        for page in self.unsynced_pages() {
            let outcome = match (self.shadows.get(&page).is_none_or(|shadow| shadow.dirty), fate) {
                (false, _) | (true, 0 | 1) => 0,
                (true, 2 | 3) => 1,
                _ => draw("fate of a page", 0, 2),
            };
            let torn = outcome == 2;
            for sector in 0..PAGE_BYTES / SECTOR_BYTES {
                if outcome == 1 || torn && draw("fate of a sector", 0, 1) == 1 {
                    self.copy_sector(page_start(page) + sector * SECTOR_BYTES, &mut image);
                }
            }
            *[&mut loss.lost_pages, &mut loss.kept_pages, &mut loss.torn_pages][outcome as usize] += 1;
        }
        image.truncate(length);
        image.shrink_to_fit();
        loss.length = length as u64;
        *self = PageCache { cached: image, durable_length: length, shadows: BTreeMap::new() };
        loss
    }

    fn unsynced_pages(&self) -> Vec<usize> {
        let mut unsynced: Vec<usize> = self.shadows.keys().copied().collect();
        unsynced.extend(pages(self.durable_length, self.cached.len()));
        unsynced.sort_unstable();
        unsynced.dedup();
        // A page that was cut off before it was ever durable may still have its (empty) shadow.
        let end = self.durable_length.max(self.cached.len());
        unsynced.retain(|page| page_start(*page) < end);
        unsynced
    }

    /// Copies a sector from the cache; what lies behind the cache's end is zeros. The image has whole pages.
    fn copy_sector(&self, start: usize, image: &mut [u8]) {
        let sector = &mut image[start..start + SECTOR_BYTES];
        let cached = self.cached.get(start..).unwrap_or_default();
        let known = cached.len().min(SECTOR_BYTES);
        sector[..known].copy_from_slice(&cached[..known]);
        sector[known..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::{Decisions, Stream};
    use std::collections::BTreeSet;

    /// The same file, written down in the simplest way: both contents whole, and what each page is.
    #[derive(Default)]
    struct Model {
        cached: Vec<u8>,
        durable: Vec<u8>,
        dirty: BTreeSet<usize>,
        clean_but_lost: BTreeSet<usize>,
    }

    impl Model {
        fn touch(&mut self, start: usize, end: usize) {
            for page in pages(start, end) {
                self.dirty.insert(page);
                self.clean_but_lost.remove(&page);
            }
        }

        fn write(&mut self, offset: usize, bytes: &[u8]) {
            let end = offset + bytes.len();
            self.touch(offset.min(self.cached.len()), end);
            let length = self.cached.len().max(end);
            self.cached.resize(length, 0);
            self.cached[offset..end].copy_from_slice(bytes);
        }

        fn set_len(&mut self, length: usize) {
            let highest = self.cached.len().max(self.durable.len());
            let old = self.cached.len();
            if length < old {
                self.touch(length, highest)
            } else {
                self.touch(old, length)
            }
            self.cached.resize(length, 0);
        }

        fn sync(&mut self) {
            let mut durable = self.cached.clone();
            for page in &self.clean_but_lost {
                for position in page_start(*page)..page_start(*page + 1).min(durable.len()) {
                    durable[position] = self.durable.get(position).copied().unwrap_or(0);
                }
            }
            self.durable = durable;
            self.dirty.clear();
        }

        fn fail_sync(&mut self) {
            self.clean_but_lost.append(&mut self.dirty);
        }
    }

    struct Chance(Decisions);

    impl Chance {
        fn up_to(&self, high: usize) -> usize {
            self.0.draw(Stream::Workload(0), "step", 0, high as u64) as usize
        }
    }

    fn step(chance: &Chance, file: &mut PageCache, model: &mut Model) {
        match chance.up_to(9) {
            0..=3 => {
                let bytes = vec![1 + chance.up_to(254) as u8; 1 + chance.up_to(9_000)];
                file.write(file.len(), &bytes);
                model.write(model.cached.len(), &bytes);
            }
            4 | 5 => {
                let offset = chance.up_to(file.len() + 5_000);
                let bytes = vec![1 + chance.up_to(254) as u8; chance.up_to(6_000)];
                file.write(offset, &bytes);
                if !bytes.is_empty() {
                    model.write(offset, &bytes);
                }
            }
            6 => {
                let length = chance.up_to(file.len() + 5_000);
                file.set_len(length);
                model.set_len(length);
            }
            7 | 8 => {
                file.complete_sync(&file.begin_sync());
                model.sync();
            }
            _ => {
                file.fail_sync(&file.begin_sync());
                model.fail_sync();
            }
        }
    }

    #[test]
    fn both_views_agree_with_the_model_after_every_step() {
        for seed in 0..300 {
            let chance = Chance(Decisions::random(seed, false));
            let (mut file, mut model) = (PageCache::default(), Model::default());
            for step_number in 0..60 {
                step(&chance, &mut file, &mut model);
                assert!(file.content() == model.cached, "cache, seed {seed}, step {step_number}");
                assert!(file.durable_image() == model.durable, "platter, seed {seed}, step {step_number}");
            }
        }
    }

    #[test]
    fn a_power_failure_leaves_each_sector_old_or_new_and_lost_pages_lost() {
        for seed in 0..600 {
            let chance = Chance(Decisions::random(seed, false));
            let (mut file, mut model) = (PageCache::default(), Model::default());
            for _ in 0..1 + chance.up_to(30) {
                step(&chance, &mut file, &mut model);
            }
            let loss =
                file.power_loss(&mut |what, low, high| chance.0.draw(Stream::PowerLoss, what, low, high));
            let after = file.content();
            assert!(file.is_durable() && file.durable_image() == after);
            let (low, high) =
                (model.cached.len().min(model.durable.len()), model.cached.len().max(model.durable.len()));
            assert!((low..=high).contains(&after.len()), "seed {seed}: {loss:?}");
            for (index, sector) in after.chunks(SECTOR_BYTES).enumerate() {
                let start = index * SECTOR_BYTES;
                let is = |content: &[u8]| {
                    (0..sector.len()).all(|at| sector[at] == content.get(start + at).copied().unwrap_or(0))
                };
                let page = start / PAGE_BYTES;
                let may_be_new = model.dirty.contains(&page) || !model.clean_but_lost.contains(&page);
                assert!(is(&model.durable) || may_be_new && is(&model.cached), "seed {seed}, sector {index}");
            }
        }
    }
}
