//! Names: directories, and which changes of them are durable. Owns the tree; knows nothing of processes or time.
//!
//! Each directory has its entries as processes see them, and as they are on the platter. Between the two stands the
//! list of *pending* changes, in order. Syncing a directory makes the changes in it durable (a rename with the
//! directory that it leads to), together with earlier changes of the same file. A power failure lets each pending
//! change survive or not; where one change of a file is lost, so are the later ones of the same file, so that no file
//! has two names or none by accident.

use super::page_cache::{Draw, PageCache};
use crate::world::lock;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    io,
    path::{Component, Path},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// A file without its names.
pub(super) struct FileInode {
    pub(super) id: u64,
    pub(super) cache: Mutex<PageCache>,
    /// Removed files count for nothing, although those who have them open may go on.
    removed: AtomicBool,
}

impl FileInode {
    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    pub(super) fn set_removed(&self, removed: bool) {
        self.removed.store(removed, Ordering::Relaxed);
    }
}

/// A directory without its name.
pub(super) struct DirectoryInode {
    id: u64,
    state: Mutex<DirectoryState>,
}

#[derive(Default)]
struct DirectoryState {
    entries: BTreeMap<String, Inode>,
    durable: BTreeMap<String, Inode>,
}

/// What a name stands for.
#[derive(Clone)]
pub(super) enum Inode {
    File(Arc<FileInode>),
    Directory(Arc<DirectoryInode>),
}

impl Inode {
    fn id(&self) -> u64 {
        match self {
            Inode::File(file) => file.id,
            Inode::Directory(directory) => directory.id,
        }
    }
}

/// A change of directories that is not durable yet.
struct Change {
    inode: Inode,
    from: Option<(Arc<DirectoryInode>, String)>,
    to: Option<(Arc<DirectoryInode>, String)>,
}

impl Change {
    /// Makes the change on the platter.
    fn apply(&self) {
        if let Some((directory, name)) = &self.from {
            let durable = &mut lock(&directory.state).durable;
            if durable.get(name).is_some_and(|known| known.id() == self.inode.id()) {
                durable.remove(name);
            }
        }
        if let Some((directory, name)) = &self.to {
            lock(&directory.state).durable.insert(name.clone(), self.inode.clone());
        }
    }

    /// The directory whose sync makes the change durable.
    fn home(&self) -> u64 {
        self.to.as_ref().or(self.from.as_ref()).map_or(0, |(directory, _)| directory.id)
    }
}

/// Which of the two views of the tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Cached,
    Durable,
}

/// All names of a disk.
pub(super) struct Tree {
    root: Arc<DirectoryInode>,
    pending: Vec<Change>,
    next_inode: u64,
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree { root: new_directory(0), pending: Vec::new(), next_inode: 1 }
    }

    /// What a path stands for.
    pub(super) fn find(&self, path: &Path, view: View) -> io::Result<Inode> {
        let mut inode = Inode::Directory(self.root.clone());
        for name in names(path)? {
            let Inode::Directory(directory) = inode else { return Err(io::ErrorKind::NotADirectory.into()) };
            let state = lock(&directory.state);
            let entries = if view == View::Cached { &state.entries } else { &state.durable };
            let found = entries.get(name).cloned().ok_or_else(not_found)?;
            drop(state);
            inode = found;
        }
        Ok(inode)
    }

    pub(super) fn find_directory(&self, path: &Path) -> io::Result<Arc<DirectoryInode>> {
        match self.find(path, View::Cached)? {
            Inode::Directory(directory) => Ok(directory),
            Inode::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// The directory that holds a path's last name, and that name.
    fn home_of(&self, path: &Path) -> io::Result<(Arc<DirectoryInode>, String)> {
        let mut names = names(path)?;
        let name = names.pop().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let above: std::path::PathBuf = names.iter().collect();
        Ok((self.find_directory(&above)?, name))
    }

    /// Creates an empty file where there is none.
    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<Arc<FileInode>> {
        let file = Arc::new(FileInode {
            id: self.next_inode(),
            cache: Mutex::default(),
            removed: AtomicBool::new(false),
        });
        let home = self.home_of(path)?;
        self.change(Inode::File(file.clone()), None, Some(home));
        Ok(file)
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) -> io::Result<()> {
        let mut directory = self.root.clone();
        for name in names(path)? {
            let known = lock(&directory.state).entries.get(name).cloned();
            directory = match known {
                Some(Inode::Directory(known)) => known,
                Some(Inode::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => {
                    let new = new_directory(self.next_inode());
                    self.change(Inode::Directory(new.clone()), None, Some((directory, name.to_owned())));
                    new
                }
            };
        }
        Ok(())
    }

    /// Gives a file or directory another name. Gives the file that had that name before.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<Option<Inode>> {
        let inode = self.find(from, View::Cached)?;
        let (from, to_names) = ((from, self.home_of(from)?), names(to)?);
        let home = self.home_of(to)?;
        if matches!(inode, Inode::Directory(_))
            && to_names.starts_with(&names(from.0)?)
            && to_names != names(from.0)?
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let replaced = lock(&home.0.state).entries.get(&home.1).cloned();
        match (&inode, &replaced) {
            (_, Some(known)) if known.id() == inode.id() => return Ok(None),
            (_, None) | (Inode::File(_), Some(Inode::File(_))) => {}
            (Inode::File(_), Some(Inode::Directory(_))) => return Err(io::ErrorKind::IsADirectory.into()),
            (Inode::Directory(_), Some(Inode::File(_))) => return Err(io::ErrorKind::NotADirectory.into()),
            (Inode::Directory(_), Some(Inode::Directory(target))) => {
                if !lock(&target.state).entries.is_empty() {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
            }
        }
        self.change(inode, Some(from.1), Some(home));
        Ok(replaced)
    }

    /// Removes a file, and gives it.
    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<Arc<FileInode>> {
        match self.find(path, View::Cached)? {
            Inode::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
            Inode::File(file) => {
                let home = self.home_of(path)?;
                self.change(Inode::File(file.clone()), Some(home), None);
                Ok(file)
            }
        }
    }

    /// Removes a directory with all that it holds, and gives the files.
    pub(super) fn remove_dir_all(&mut self, path: &Path) -> io::Result<Vec<Arc<FileInode>>> {
        let directory = self.find_directory(path)?;
        let home = self.home_of(path)?;
        let mut files = Vec::new();
        collect(&directory, View::Cached, String::new(), &mut |_, file| files.push(file.clone()));
        self.change(Inode::Directory(directory), Some(home), None);
        Ok(files)
    }

    /// The names in a directory, sorted.
    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<(String, Inode)>> {
        let directory = self.find_directory(path)?;
        let state = lock(&directory.state);
        Ok(state.entries.iter().map(|(name, inode)| (name.clone(), inode.clone())).collect())
    }

    /// Every file with its path, sorted by path.
    pub(super) fn files(&self, view: View) -> Vec<(String, Arc<FileInode>)> {
        let mut files = Vec::new();
        collect(&self.root, view, String::new(), &mut |path, file| files.push((path, file.clone())));
        files
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync_directory(&mut self, directory: &Arc<DirectoryInode>) {
        let mut settled = vec![false; self.pending.len()];
        let mut files = BTreeSet::new();
        for (index, change) in self.pending.iter().enumerate().rev() {
            if change.home() == directory.id || files.contains(&change.inode.id()) {
                files.insert(change.inode.id());
                settled[index] = true;
            }
        }
        let mut settled = settled.into_iter();
        self.pending.retain(|change| {
            let settled = settled.next().expect("one for each change");
            if settled {
                change.apply();
            }
            !settled
        });
    }

    /// Power fails: some of the pending changes survive. Gives how many did and how many did not.
    pub(super) fn power_loss(&mut self, draw: &mut Draw<'_>) -> (u64, u64) {
        let pending = std::mem::take(&mut self.pending);
        let (mut kept, mut lost) = (0, 0);
        if !pending.is_empty() {
            // A journal loses the end of what happened; without one, anything may be lost.
            let fate = draw("fate of the directories", 0, 3);
            let journal =
                (draw("share of the journal", 0, 999_999) as usize) * (pending.len() + 1) / 1_000_000;
            let mut lost_inodes = BTreeSet::new();
            for (index, change) in pending.iter().enumerate() {
                let depends_on_lost = lost_inodes.contains(&change.inode.id())
                    || change.to.as_ref().is_some_and(|(directory, _)| lost_inodes.contains(&directory.id));
                let survives = !depends_on_lost
                    && match fate {
                        0 => false,
                        1 => true,
                        2 => index < journal,
                        _ => draw("fate of a directory change", 0, 1) == 1,
                    };
                if survives {
                    change.apply();
                    kept += 1;
                } else {
                    lost_inodes.insert(change.inode.id());
                    lost += 1;
                }
            }
        }
        restore(&self.root);
        (kept, lost)
    }

    /// Makes a change for processes; it is durable later.
    fn change(
        &mut self,
        inode: Inode,
        from: Option<(Arc<DirectoryInode>, String)>,
        to: Option<(Arc<DirectoryInode>, String)>,
    ) {
        if let Some((directory, name)) = &from {
            lock(&directory.state).entries.remove(name);
        }
        if let Some((directory, name)) = &to {
            lock(&directory.state).entries.insert(name.clone(), inode.clone());
        }
        // What never was durable and is gone again leaves no trace, and need not be remembered.
        if to.is_none() {
            let id = inode.id();
            let mut changes = self.pending.iter().enumerate().filter(|(_, change)| change.inode.id() == id);
            if let (Some((index, first)), None) = (changes.next(), changes.next())
                && first.from.is_none()
            {
                let replaces = first
                    .to
                    .as_ref()
                    .is_some_and(|(directory, name)| lock(&directory.state).durable.contains_key(name));
                if !replaces {
                    self.pending.remove(index);
                    return;
                }
            }
        }
        self.pending.push(Change { inode, from, to });
    }

    fn next_inode(&mut self) -> u64 {
        self.next_inode += 1;
        self.next_inode
    }
}

fn new_directory(id: u64) -> Arc<DirectoryInode> {
    Arc::new(DirectoryInode { id, state: Mutex::default() })
}

/// Makes what is durable what processes see, from `directory` down.
fn restore(directory: &Arc<DirectoryInode>) {
    let below: Vec<Inode> = {
        let mut state = lock(&directory.state);
        state.entries = state.durable.clone();
        state.entries.values().cloned().collect()
    };
    for inode in below {
        if let Inode::Directory(directory) = inode {
            restore(&directory);
        }
    }
}

fn collect(
    directory: &DirectoryInode,
    view: View,
    above: String,
    visit: &mut dyn FnMut(String, &Arc<FileInode>),
) {
    let entries = {
        let state = lock(&directory.state);
        if view == View::Cached { state.entries.clone() } else { state.durable.clone() }
    };
    for (name, inode) in entries {
        let path = format!("{above}/{name}");
        match inode {
            Inode::File(file) => visit(path, &file),
            Inode::Directory(directory) => collect(&directory, view, path, visit),
        }
    }
}

/// The names of a path from the root; there is no current directory, so a relative path begins there as well.
fn names(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => names.push(OsStr::to_str(name).ok_or(io::ErrorKind::InvalidInput)?),
            Component::ParentDir | Component::Prefix(_) => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    Ok(names)
}
