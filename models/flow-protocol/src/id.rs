//! Names of things: tokens, keys, jobs, the two stores.

use std::fmt;

/// A lock token. That of the fan-out run that landed marks its manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u8);

/// A child's key within its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u8);

/// A set of child keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keys(u8);

/// One of the two stores. Children always live in the other store than their
/// parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Store {
    /// Holds the outermost parent, and its grandchildren.
    Durable,
    /// Holds the outermost parent's children.
    Ephemeral,
}

/// A job: the outermost parent, or a child, named by the path that leads to
/// it (the manifests and keys on the way down).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    depth: u8,
    path: [(Token, Key); 2],
}

/// A child as its parent's store names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Child {
    /// The parent.
    pub flow: JobId,
    /// The mark of the manifest it belongs to.
    pub mark: Token,
    /// Its key within the manifest.
    pub key: Key,
}

impl Keys {
    /// No key.
    pub const NONE: Self = Self(0);

    /// The keys from `first` to before `end`.
    pub fn range(first: u8, end: u8) -> Self {
        (first..end).map(Key).collect()
    }

    /// The same keys without this one.
    pub fn without(self, key: Key) -> Self {
        Self(self.0 & !(1 << key.0))
    }

    /// The same keys without those.
    pub fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the key is among them.
    pub fn has(self, key: Key) -> bool {
        self.0 & (1 << key.0) != 0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The keys in order.
    pub fn iter(self) -> impl Iterator<Item = Key> {
        (0..8).map(Key).filter(move |key| self.has(*key))
    }
}

impl FromIterator<Key> for Keys {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Self {
        Self(keys.into_iter().fold(0, |set, key| set | 1 << key.0))
    }
}

impl Store {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Durable, Self::Ephemeral];
}

impl JobId {
    /// The outermost parent. It keeps this id when it is enqueued again.
    pub const PARENT: Self = Self {
        depth: 0,
        path: [(Token(0), Key(0)); 2],
    };

    /// The store it lives in.
    pub fn store(self) -> Store {
        Store::ALL[usize::from(self.depth % 2)]
    }

    /// How far below the outermost parent it is.
    pub fn depth(self) -> u8 {
        self.depth
    }

    /// The child it is to its parent; none for the outermost parent.
    pub fn as_child(self) -> Option<Child> {
        let last = usize::from(self.depth.checked_sub(1)?);
        let (mark, key) = self.path[last];
        let mut flow = self;
        flow.depth -= 1;
        flow.path[last] = Self::PARENT.path[last];
        Some(Child { flow, mark, key })
    }
}

impl Child {
    /// The id of its job.
    pub fn job(self) -> JobId {
        let mut job = self.flow;
        job.path[usize::from(job.depth)] = (self.mark, self.key);
        job.depth += 1;
        job
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", char::from(b'a' + self.0))
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let keys: Vec<_> = self.iter().map(|key| key.to_string()).collect();
        f.write_str(&keys.join(", "))
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Durable => "durable",
            Self::Ephemeral => "ephemeral",
        })
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("p")?;
        for (mark, key) in &self.path[..usize::from(self.depth)] {
            write!(f, "/{mark}/{key}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.job().fmt(f)
    }
}
