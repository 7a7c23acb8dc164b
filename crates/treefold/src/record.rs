//! Recordings: all inputs of a node, in a file, so that the node's run can be repeated.
//!
//! Core is a pure function of its inputs. A fresh node that is fed the same inputs therefore decides the
//! same, step by step (`treefold replay`). A file is [`MAGIC`], followed by records. Each record is a head
//! and bytes of postcard: one [`Header`], then an [`Entry`] per input and timeout. The head has three numbers (u32,
//! little-endian): the length of the bytes, their checksum (CRC-32C), and the checksum of these two numbers. So a
//! changed bit is told from a recording that ends early. A clean shutdown adds an end record with a running hash over all effects. A file without an end
//! record is from a crash or a kill and can be read up to that point.
//!
//! Records are written through a buffer, which is flushed every second and at shutdown. If a write fails, the
//! recording ends with a warning, and the node continues.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use treefold_core::config::NodeConfig;
use treefold_core::effect::Effect;
use treefold_core::input::Input;
use treefold_core::time::Instant;

/// First bytes of a recording; the last one is the format's version.
pub(crate) const MAGIC: [u8; 8] = *b"tfrecrd\x06";

/// The first record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The node's configuration at its start.
    pub(crate) config: NodeConfig,
    /// Start of the node, by its own clock.
    pub(crate) started_at: Instant,
}

/// A record of an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Entry<I> {
    /// An input.
    Input(Instant, I),
    /// The node's timeout was due.
    Timeout(Instant),
    /// The recording was closed. Contains the number of effects and their hash.
    End { effects: u64, hash: u64 },
}

/// A running hash over effects: FNV-1a, 64 bits, over the postcard encoding of each effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EffectHash {
    pub(crate) effects: u64,
    pub(crate) hash: u64,
}

impl EffectHash {
    pub(crate) const fn new() -> Self {
        Self { effects: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }

    pub(crate) fn add(&mut self, effect: &Effect<Bytes>) {
        self.effects += 1;
        let hashed = postcard::serialize_with_flavor(effect, Fnv(self.hash));
        self.hash = hashed.expect("hashing accepts every byte, and postcard can encode every effect");
    }
}

struct Fnv(u64);

impl postcard::ser_flavors::Flavor for Fnv {
    type Output = u64;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<u64> {
        Ok(self.0)
    }
}

/// Appends to a buffer that is reused for each record.
struct Appended<'a>(&'a mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Appended<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Writes a recording.
pub(crate) struct Recorder {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    record: Vec<u8>,
    effects: EffectHash,
}

/// Creates or empties a file that only its owner can read.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        let file = options.mode(0o600).open(path)?;
        // An older file keeps its mode.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        Ok(file)
    }
    #[cfg(not(unix))]
    options.open(path)
}

impl Recorder {
    /// Creates a recording, which only its owner can read: it has what callers ask and services answer. An existing file is
    /// overwritten.
    pub(crate) fn create(path: &Path, config: &NodeConfig, started_at: Instant) -> io::Result<Self> {
        let mut file = BufWriter::new(create_private(path)?);
        file.write_all(&MAGIC)?;
        let mut recorder =
            Self { path: path.to_path_buf(), file: None, record: Vec::new(), effects: EffectHash::new() };
        encode(&Header { config: config.clone(), started_at }, &mut recorder.record)?;
        file.write_all(&recorder.record)?;
        file.flush()?;
        recorder.file = Some(file);
        Ok(recorder)
    }

    /// Records an input before it is handled.
    pub(crate) fn input(&mut self, now: Instant, input: &Input<Bytes>) {
        self.append(&Entry::Input(now, input));
    }

    /// Records the timeout before it is handled.
    pub(crate) fn timeout(&mut self, now: Instant) {
        self.append(&Entry::<&Input<Bytes>>::Timeout(now));
    }

    /// Adds an effect to the hash.
    pub(crate) fn effect(&mut self, effect: &Effect<Bytes>) {
        if self.file.is_some() {
            self.effects.add(effect);
        }
    }

    /// Flushes the buffer to the system.
    pub(crate) fn flush(&mut self) {
        if let Some(Err(error)) = self.file.as_mut().map(Write::flush) {
            self.give_up(&error);
        }
    }

    /// Closes the recording.
    pub(crate) fn finish(&mut self) {
        let EffectHash { effects, hash } = self.effects;
        self.append(&Entry::<&Input<Bytes>>::End { effects, hash });
        self.flush();
        self.file = None;
    }

    fn append(&mut self, entry: &Entry<&Input<Bytes>>) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = encode(entry, &mut self.record).and_then(|()| file.write_all(&self.record)) {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, error: &io::Error) {
        tracing::warn!(%error, path = %self.path.display(), "the recording failed and ends here");
        self.file = None;
    }
}

/// Bytes of a record before its value.
pub(crate) const HEAD_BYTES: usize = 12;

/// The head of a record with these bytes.
fn head_of(value: &[u8]) -> io::Result<[u8; HEAD_BYTES]> {
    let length = u32::try_from(value.len()).map_err(io::Error::other)?;
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..8].copy_from_slice(&crc32c::crc32c(value).to_le_bytes());
    let sum = crc32c::crc32c(&head[..8]);
    head[8..].copy_from_slice(&sum.to_le_bytes());
    Ok(head)
}

/// Reads a record's head: the length and the checksum of its bytes. `None` if it was changed.
pub(crate) fn read_head(head: [u8; HEAD_BYTES]) -> Option<(u32, u32)> {
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    (crc32c::crc32c(&head[..8]) == word(8)).then(|| (word(0), word(4)))
}

/// Encodes a value with its head into `record`.
fn encode<T: Serialize>(value: &T, record: &mut Vec<u8>) -> io::Result<()> {
    record.clear();
    record.extend_from_slice(&[0; HEAD_BYTES]);
    postcard::serialize_with_flavor(value, Appended(record)).map_err(io::Error::other)?;
    let head = head_of(&record[HEAD_BYTES..])?;
    record[..HEAD_BYTES].copy_from_slice(&head);
    Ok(())
}
