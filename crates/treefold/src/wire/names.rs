//! Interns repeated names, so that each is allocated once.
//!
//! A connection carries a few aggregation names, each thousands of times. The most recent names are kept in a
//! row. A name that is found moves one place to the front, and a new name replaces the last one. A peer that
//! sends ever new names affects only this row of its own connection.

use std::sync::Arc;

/// Names kept at once.
const NAMES_MAX: usize = 16;

/// The row of names.
#[derive(Debug, Default)]
pub(super) struct Names {
    row: Vec<Arc<str>>,
}

impl Names {
    /// Returns the name as a shared string.
    pub(super) fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(at) = self.row.iter().position(|kept| **kept == *name) {
            let ahead = at.saturating_sub(1);
            self.row.swap(at, ahead);
            return self.row[ahead].clone();
        }
        if self.row.len() == NAMES_MAX {
            self.row.pop();
        }
        let name: Arc<str> = name.into();
        self.row.push(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_name_shares_one_allocation() {
        let mut names = Names::default();
        let first = names.intern("search/topk");
        assert!(Arc::ptr_eq(&first, &names.intern("search/topk")));
        (0..100).for_each(|n| drop(names.intern(&format!("strange/{n}"))));
        assert_eq!(names.row.len(), NAMES_MAX);
        assert!(Arc::ptr_eq(&first, &names.intern("search/topk")), "the name at the front stays");
    }
}
