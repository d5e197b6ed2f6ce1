//! Several ordered streams, read as one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Merges streams of `(order, value)`, each ascending in `order`. Making it
/// costs a step per stream, each item the logarithm of their number.
pub(super) struct Merge<K, V, I> {
    heads: BinaryHeap<Head<K, V>>,
    tails: Vec<I>,
}

struct Head<K, V> {
    order: K,
    value: V,
    stream: usize,
}

impl<K: Ord, V, I: Iterator<Item = (K, V)>> Merge<K, V, I> {
    pub(super) fn new(streams: impl IntoIterator<Item = I>) -> Self {
        let mut tails: Vec<I> = streams.into_iter().collect();
        let first = |(stream, tail): (usize, &mut I)| {
            tail.next().map(|(order, value)| Head {
                order,
                value,
                stream,
            })
        };
        Self {
            heads: tails.iter_mut().enumerate().filter_map(first).collect(),
            tails,
        }
    }
}

impl<K: Ord, V, I: Iterator<Item = (K, V)>> Iterator for Merge<K, V, I> {
    type Item = V;

    fn next(&mut self) -> Option<V> {
        let mut head = self.heads.peek_mut()?;
        match self.tails[head.stream].next() {
            Some((order, value)) => {
                head.order = order;
                Some(std::mem::replace(&mut head.value, value))
            }
            None => Some(PeekMut::pop(head).value),
        }
    }
}

// The heap gives the greatest first; reversed, that is the least order.
impl<K: Ord, V> Ord for Head<K, V> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.order.cmp(&self.order)
    }
}

impl<K: Ord, V> PartialOrd for Head<K, V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, V> PartialEq for Head<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<K: Ord, V> Eq for Head<K, V> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_streams_are_ascending_and_complete() {
        let streams = [vec![1, 4, 9], vec![], vec![2, 3, 10], vec![5]];
        let merged: Vec<i32> = Merge::new(
            streams
                .iter()
                .map(|stream| stream.iter().map(|number| (*number, *number))),
        )
        .collect();
        assert_eq!(merged, [1, 2, 3, 4, 5, 9, 10]);
    }
}
