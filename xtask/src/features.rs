//! Checks every combination of features of every crate.

use std::collections::{BTreeMap, BTreeSet};

use xshell::{Shell, cmd};

use crate::workspace;

/// Up to this many features, every subset is checked; of more, none, each alone,
/// all but each, and all: most faults are of one that needs another, or does
/// without.
const FULL_POWERSET: usize = 6;

/// Lints each published crate alone with each combination of its features, so
/// that none needs another one to be on, or leaves something unused.
pub(crate) fn check(shell: &Shell) -> anyhow::Result<()> {
    for package in workspace::packages(shell)?.members {
        if !package.is_published() {
            continue;
        }
        let name = &package.name;
        for features in combinations(&package.features) {
            let features = features.join(",");
            cmd!(
                shell,
                "cargo clippy --quiet --package {name} --lib --no-default-features --features {features} -- -D warnings"
            )
            .run()?;
        }
    }
    Ok(())
}

/// The combinations to check, by size; of those that come to the same set
/// with all they imply, the first.
fn combinations(features: &BTreeMap<String, Vec<String>>) -> Vec<Vec<&str>> {
    let names: Vec<&str> = features
        .keys()
        .map(String::as_str)
        .filter(|name| *name != "default")
        .collect();
    let mut subsets: Vec<Vec<&str>> = vec![Vec::new()];
    if names.len() > FULL_POWERSET {
        let but = |left_out: &&str| {
            names
                .iter()
                .copied()
                .filter(|name| name != left_out)
                .collect()
        };
        subsets.extend(names.iter().map(|name| vec![*name]));
        subsets.extend(names.iter().map(but));
        subsets.push(names);
    } else {
        for name in &names {
            let longer = subsets.iter().map(|subset| [subset, &[*name][..]].concat());
            let longer: Vec<_> = longer.collect();
            subsets.extend(longer);
        }
    }
    subsets.sort_by_key(Vec::len);

    let mut seen = BTreeSet::new();
    subsets.retain(|subset| seen.insert(implied(features, subset)));
    subsets
}

/// These features and those they turn on in the same crate.
fn implied<'a>(
    features: &'a BTreeMap<String, Vec<String>>,
    subset: &[&'a str],
) -> BTreeSet<&'a str> {
    let mut on = BTreeSet::new();
    let mut todo = subset.to_vec();
    while let Some(name) = todo.pop() {
        if let Some(implies) = features.get(name)
            && on.insert(name)
        {
            todo.extend(implies.iter().map(String::as_str));
        }
    }
    on
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(entries: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        entries
            .iter()
            .map(|(name, implies)| (name.to_string(), owned(implies)))
            .collect()
    }

    #[test]
    fn a_crate_without_features_has_one_combination() {
        assert_eq!(combinations(&features(&[("default", &[])])), [[""; 0]]);
    }

    #[test]
    fn combinations_that_imply_the_same_are_checked_once() {
        let features = features(&[
            ("default", &["memory"]),
            ("contract", &["memory"]),
            ("memory", &["dep:lock"]),
        ]);
        let expected: [&[&str]; 3] = [&[], &["contract"], &["memory"]];
        assert_eq!(combinations(&features), expected);
    }

    #[test]
    fn many_features_are_checked_alone_and_left_out_one_by_one() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let features = features(&names.map(|name| (name, &[][..])));
        let found = combinations(&features);
        assert_eq!(found.len(), 1 + 7 + 7 + 1);
        assert!(found.contains(&vec!["b"]));
        assert!(found.contains(&vec!["a", "c", "d", "e", "f", "g"]));
        assert_eq!(found.last(), Some(&names.to_vec()));
    }
}
