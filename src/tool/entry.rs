use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::model::{Fingerprint, ToolSpec};

/// A tool as it is registered: its spec, where it comes from, and which registration it is.
///
/// This is what layers decide by. They are shown it by the machine that runs them; see [`Policy`](crate::layer::Policy).
pub struct ToolEntry {
    spec: Arc<ToolSpec>,
    source: Source,
    serial: u64,
    /// Boxed, since most tools are never asked for it.
    fingerprint: OnceLock<Box<Fingerprint>>,
    /// Whoever keeps something by tool, and where: see [`place_of`](ToolEntry::place_of).
    place: AtomicU64,
}

/// Where a tool comes from, and whether what it says of itself is believed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Source {
    /// A name for it: `local` for functions of this program.
    pub name: Cow<'static, str>,
    /// Whether its tools' annotations may relax a rule. They may always tighten one.
    pub trusted: bool,
}

impl Source {
    /// This program itself.
    pub const LOCAL: Self = Self { name: Cow::Borrowed("local"), trusted: true };

    /// Somebody else, who is not believed.
    #[must_use]
    pub fn foreign(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), trusted: false }
    }

    /// This source, believed.
    #[must_use]
    pub fn trusted(mut self) -> Self {
        self.trusted = true;
        self
    }
}

/// What is believed of what a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Believed {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something.
    pub destructive: bool,
    /// Repeating it does no more.
    pub idempotent: bool,
    /// It reaches things outside.
    pub open_world: bool,
}

impl ToolEntry {
    /// Registers a tool. Every registration has a serial of its own, also of an equal tool.
    pub(crate) fn new(spec: Arc<ToolSpec>, source: Source) -> Self {
        static SERIALS: AtomicU64 = AtomicU64::new(1);
        Self { spec, source, serial: SERIALS.fetch_add(1, Ordering::Relaxed), fingerprint: OnceLock::new(), place: AtomicU64::new(0) }
    }

    /// The same registration under another name.
    pub(crate) fn renamed(&self, spec: ToolSpec) -> Self {
        Self {
            spec: Arc::new(spec),
            source: self.source.clone(),
            serial: self.serial,
            fingerprint: OnceLock::new(),
            place: AtomicU64::new(0),
        }
    }

    /// What the tool is. Its name is the one that callers at this place use.
    #[must_use]
    pub fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// Where the tool comes from.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// What is believed of what the tool does: what its annotations say if its source is trusted, and the worst if it is not.
    #[must_use]
    pub fn believed(&self) -> Believed {
        let says = &self.spec.annotations;
        let trusted = self.source.trusted;
        Believed {
            read_only: trusted && says.is_read_only(),
            destructive: !trusted || says.is_destructive(),
            idempotent: trusted && says.is_idempotent(),
            open_world: !trusted || says.is_open_world(),
        }
    }

    /// Names this exact definition of the tool. Worked out at the first use.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        **self.fingerprint.get_or_init(|| Box::new(self.spec.fingerprint()))
    }

    pub(crate) const fn serial(&self) -> u64 {
        self.serial
    }

    /// Where somebody keeps what it has by tool, without looking up the name each time: the first owner that asks is remembered. Others
    /// look for it each time. An owner is not zero.
    #[inline]
    pub(crate) fn place_of(&self, owner: u32, find: impl FnOnce() -> u32) -> u32 {
        let known = self.place.load(Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is the place")]
        if known >> 32 == u64::from(owner) {
            return known as u32;
        }
        let place = find();
        if known == 0 {
            self.place.store(u64::from(owner) << 32 | u64::from(place), Ordering::Relaxed);
        }
        place
    }
}

/// Where the layers of a tool find it: empty until it is registered, so that they see it as it is then, whatever was said of it after they
/// had been put around it.
#[derive(Debug, Default)]
pub(crate) struct Registered(OnceLock<Arc<ToolEntry>>);

impl Registered {
    pub(crate) fn entry(&self) -> Option<&Arc<ToolEntry>> {
        self.0.get()
    }

    /// A tool that is registered a second time, as a clone, is the same one.
    pub(crate) fn set(&self, entry: impl FnOnce() -> ToolEntry) {
        self.0.get_or_init(|| Arc::new(entry()));
    }
}

impl fmt::Debug for ToolEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolEntry").field("name", &self.spec.name).field("source", &self.source).finish_non_exhaustive()
    }
}
