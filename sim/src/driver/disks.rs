//! The oracle's eyes on the simulated disks. Owns nothing but the translation.

use crate::{
    oracle::Disks,
    world::{NodeId, World},
};
use sillon_runtime::DirectoryEntry;
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Weak},
};

/// The disks of a world. Holds no world alive: the world's own processes hold the oracle.
pub(super) struct WorldDisks(Weak<World>);

impl WorldDisks {
    pub fn of(world: &Arc<World>) -> Arc<WorldDisks> {
        Arc::new(WorldDisks(Arc::downgrade(world)))
    }
}

impl Disks for WorldDisks {
    fn list(&self, node: u32, directory: &Path) -> Vec<DirectoryEntry> {
        let Some(world) = self.0.upgrade() else { return Vec::new() };
        let disk = world.disk(NodeId(node));
        let mut entries: BTreeMap<String, DirectoryEntry> = BTreeMap::new();
        for path in disk.files() {
            let Ok(inside) = Path::new(&path).strip_prefix(directory) else { continue };
            let mut parts = inside.components();
            let Some(name) = parts.next().map(|part| part.as_os_str().to_string_lossy().into_owned()) else {
                continue;
            };
            let is_directory = parts.next().is_some();
            let length =
                if is_directory { 0 } else { disk.read_file(&path).map_or(0, |bytes| bytes.len() as u64) };
            entries.insert(name.clone(), DirectoryEntry { name, is_directory, length });
        }
        entries.into_values().collect()
    }

    fn read(&self, node: u32, file: &Path) -> Option<Vec<u8>> {
        self.0.upgrade()?.disk(NodeId(node)).read_file(file)
    }
}
