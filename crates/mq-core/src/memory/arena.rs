//! Numbered places for things that refer to each other, so that indexes hold
//! four bytes instead of a text.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use slab::Slab;

/// The place of a `T` in its [`Arena`]. Places are used again, so whoever
/// keeps one past the life of what it names must check what it finds there.
pub(super) struct Ix<T>(u32, PhantomData<fn() -> T>);

#[cfg(test)]
impl<T> Ix<T> {
    /// A place, whether or not anything is there.
    pub(super) fn at(place: u32) -> Self {
        Self(place, PhantomData)
    }
}

impl<T> Clone for Ix<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ix<T> {}

impl<T> PartialEq for Ix<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Ix<T> {}

impl<T> PartialOrd for Ix<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ix<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> std::hash::Hash for Ix<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> fmt::Debug for Ix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Things in numbered places.
pub(super) struct Arena<T>(Slab<T>);

impl<T> Arena<T> {
    pub(super) fn new() -> Self {
        Self(Slab::new())
    }

    pub(super) fn insert(&mut self, value: T) -> Ix<T> {
        let place = u32::try_from(self.0.insert(value));
        Ix(
            place.expect("memory holds fewer than 2^32 things"),
            PhantomData,
        )
    }

    pub(super) fn remove(&mut self, ix: Ix<T>) -> T {
        self.0.remove(ix.0 as usize)
    }

    pub(super) fn get(&self, ix: Ix<T>) -> Option<&T> {
        self.0.get(ix.0 as usize)
    }

    pub(super) fn get_mut(&mut self, ix: Ix<T>) -> Option<&mut T> {
        self.0.get_mut(ix.0 as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ix<T>, &T)> {
        self.0
            .iter()
            .map(|(place, value)| (Ix(place as u32, PhantomData), value))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Index<Ix<T>> for Arena<T> {
    type Output = T;

    fn index(&self, ix: Ix<T>) -> &T {
        &self.0[ix.0 as usize]
    }
}

impl<T> IndexMut<Ix<T>> for Arena<T> {
    fn index_mut(&mut self, ix: Ix<T>) -> &mut T {
        &mut self.0[ix.0 as usize]
    }
}
