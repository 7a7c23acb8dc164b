//! A directory of local copies, bounded in bytes.

use crate::copies::{self, Place, Plan, taken};
use crate::download;
use crate::error::ObjectsError;
use crate::folder::{Folder, Object};
use crate::limits::{LOOK_EVERY, OBJECTS_MAX};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

/// A directory of local copies. Processes may share it.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
    bytes_max: u64,
}

/// A copy of a part of a folder. It is not removed while it is held.
#[derive(Debug)]
pub struct LocalCopy {
    files: PathBuf,
    /// Locked, so that nobody removes the copy.
    _lock: File,
}

impl LocalCopy {
    /// The directory with the part's files.
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// Holds the copy until the process ends.
    pub fn hold_until_exit(self) {
        std::mem::forget(self);
    }
}

impl Cache {
    /// Uses a directory, which is made if necessary, for copies of at most `bytes_max` bytes in all.
    ///
    /// # Errors
    /// [`ObjectsError::Disk`].
    pub fn in_directory(directory: &Path, bytes_max: u64) -> Result<Self, ObjectsError> {
        fs::create_dir_all(directory).map_err(ObjectsError::disk(directory))?;
        let directory = directory.canonicalize().map_err(ObjectsError::disk(directory))?;
        Ok(Self { directory, bytes_max })
    }

    /// Returns a copy of a part of a folder: of the objects that `objects` lists now, or of the newest ones that were
    /// copied before, if the store can't be reached.
    ///
    /// `part` names the part; a folder's parts share nothing. Blocks until all objects are copied.
    ///
    /// # Errors
    /// The errors of `objects`; [`ObjectsError::Unreachable`] if there is no complete copy of before;
    /// [`ObjectsError::Full`], [`ObjectsError::Changed`], [`ObjectsError::Refused`], [`ObjectsError::Disk`].
    pub fn open(
        &self,
        folder: &Folder,
        part: &str,
        objects: impl FnOnce() -> Result<Vec<Object>, ObjectsError>,
    ) -> Result<LocalCopy, ObjectsError> {
        let copied = objects().and_then(|objects| self.copy(folder, part, objects));
        match copied {
            Err(error) if error.is_unreachable() => {
                let kept = self.newest(folder.identity(), part)?;
                let kept = kept.ok_or(error)?;
                tracing::warn!(
                    folder = folder.url(),
                    part,
                    "the store can't be reached; a copy of before is used, which may be old"
                );
                Ok(kept)
            }
            other => other,
        }
    }

    /// Returns the copy of exactly these objects.
    fn copy(&self, folder: &Folder, part: &str, objects: Vec<Object>) -> Result<LocalCopy, ObjectsError> {
        if objects.is_empty() {
            let (url, name) = (folder.url().to_owned(), format!("object of {part}"));
            return Err(ObjectsError::Missing { url, name });
        }
        if objects.len() > OBJECTS_MAX {
            return Err(folder.limit(format!("the number of objects of {part}"), OBJECTS_MAX.to_string()));
        }
        let plan = Plan { folder: folder.identity().to_owned(), part: part.to_owned(), objects };
        let place = Place::of(&self.directory, &plan);
        loop {
            match self.seat(&place, &plan)? {
                Seat::Held(copy) => match place.changed_files() {
                    none if none.is_empty() => {
                        if place.lacks_sums() {
                            let sums = place.sums_now(&plan)?;
                            let _guard = copies::lock(&self.directory)?;
                            place.complete(&sums)?;
                        }
                        return Ok(copy);
                    }
                    changed => {
                        drop(copy);
                        self.discard(folder, &place, &changed)?;
                    }
                },
                Seat::Writing(lock) => return self.write(folder, &place, &plan, lock),
                Seat::Busy => thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Takes a complete copy, or the right to write it.
    fn seat(&self, place: &Place, plan: &Plan) -> Result<Seat, ObjectsError> {
        let _guard = copies::lock(&self.directory)?;
        let lock = place.lock(true)?;
        if place.is_complete() && taken(lock.try_lock_shared(), &self.directory)? {
            place.used();
            return Ok(Seat::Held(LocalCopy { files: place.files(), _lock: lock }));
        }
        if !taken(lock.try_lock(), &self.directory)? {
            // A process that holds a copy that was complete would wait for itself.
            return if place.was_complete() { Err(place.damaged()) } else { Ok(Seat::Busy) };
        }
        let reserved = self.make_room(place, plan.bytes()).and_then(|()| place.reserve(plan));
        if let Err(error) = reserved {
            // A directory that reserves nothing is of no use.
            if place.plan().is_none() {
                place.remove()?;
            }
            return Err(error);
        }
        Ok(Seat::Writing(lock))
    }

    /// Removes changed files of a copy that nobody holds.
    fn discard(&self, folder: &Folder, place: &Place, changed: &[PathBuf]) -> Result<(), ObjectsError> {
        let _guard = copies::lock(&self.directory)?;
        let lock = place.lock(true)?;
        if !taken(lock.try_lock(), &self.directory)? {
            // Somebody who has discarded them already is writing them.
            return if place.was_complete() { Err(place.damaged()) } else { Ok(()) };
        }
        tracing::warn!(
            folder = folder.url(),
            files = changed.len(),
            first = %changed[0].display(),
            "files of a copy were changed; they are copied again"
        );
        place.discard(changed)
    }

    fn write(
        &self,
        folder: &Folder,
        place: &Place,
        plan: &Plan,
        lock: File,
    ) -> Result<LocalCopy, ObjectsError> {
        let started_at = Instant::now();
        let fetched = download::fetch(folder, &plan.objects, &place.files());
        // Checksums take as long as reading the files, so nobody else waits for them.
        let fetched = fetched.and_then(|()| place.sums_now(plan));
        let _guard = copies::lock(&self.directory)?;
        match fetched {
            Ok(sums) => place.complete(&sums)?,
            Err(error) => {
                // Files of an unreachable store are of use for the next try; a full disk must not stay full.
                if !error.is_unreachable() {
                    place.remove()?;
                }
                return Err(error);
            }
        }
        // Another process can't come between, because it would need the cache's lock.
        let shared = lock.unlock().and_then(|()| lock.lock_shared());
        shared.map_err(ObjectsError::disk(&self.directory))?;
        tracing::info!(
            folder = folder.url(),
            part = plan.part,
            bytes = plan.bytes(),
            objects = plan.objects.len(),
            ms = started_at.elapsed().as_millis(),
            "copied"
        );
        Ok(LocalCopy { files: place.files(), _lock: lock })
    }

    /// The complete copy of a part that was used last and is as it was copied.
    fn newest(&self, folder: &str, part: &str) -> Result<Option<LocalCopy>, ObjectsError> {
        for (place, copy) in self.complete_copies(folder, part)? {
            match place.changed_files() {
                none if none.is_empty() => return Ok(Some(copy)),
                changed => tracing::warn!(
                    folder, part, files = changed.len(), first = %changed[0].display(),
                    "files of a copy were changed, and the store can't be reached; the copy is not used"
                ),
            }
        }
        Ok(None)
    }

    /// The complete copies of a part, the last used first.
    fn complete_copies(&self, folder: &str, part: &str) -> Result<Vec<(Place, LocalCopy)>, ObjectsError> {
        let _guard = copies::lock(&self.directory)?;
        let mut found = copies::places(&self.directory, Some((folder, part)))?;
        found.retain(|place| {
            place.is_complete() && place.plan().is_some_and(|plan| plan.folder == folder && plan.part == part)
        });
        found.sort_by_key(|place| std::cmp::Reverse(place.used_at()));
        let mut held = Vec::new();
        for place in found {
            let lock = place.lock(false)?;
            if taken(lock.try_lock_shared(), &self.directory)? {
                let copy = LocalCopy { files: place.files(), _lock: lock };
                held.push((place, copy));
            }
        }
        Ok(held)
    }

    /// Removes copies that nobody holds, the longest unused first, until `bytes` more fit. If they can't fit, nothing is
    /// removed.
    fn make_room(&self, besides: &Place, bytes: u64) -> Result<(), ObjectsError> {
        let (mut free, mut held_bytes, mut free_bytes) = (Vec::new(), 0_u64, 0_u64);
        for place in copies::places(&self.directory, None)? {
            if place == *besides {
                continue;
            }
            let size = place.plan().map_or(0, |plan| plan.bytes());
            let lock = place.lock(true)?;
            if taken(lock.try_lock(), &self.directory)? {
                free_bytes = free_bytes.saturating_add(size);
                free.push((place, size, lock));
            } else {
                held_bytes = held_bytes.saturating_add(size);
            }
        }
        if held_bytes.saturating_add(bytes) > self.bytes_max {
            let (directory, limit) = (self.directory.clone(), self.bytes_max);
            return Err(ObjectsError::Full { directory, bytes, in_use: held_bytes, limit });
        }
        free.sort_by_key(|(place, ..)| place.used_at());
        for (place, size, _lock) in &free {
            if held_bytes.saturating_add(free_bytes).saturating_add(bytes) <= self.bytes_max {
                break;
            }
            place.remove()?;
            free_bytes = free_bytes.saturating_sub(*size);
        }
        Ok(())
    }
}

/// How a copy is found.
enum Seat {
    /// It is complete, and held now.
    Held(LocalCopy),
    /// The owner of this lock is to write it.
    Writing(File),
    /// Another thread or process writes it.
    Busy,
}
