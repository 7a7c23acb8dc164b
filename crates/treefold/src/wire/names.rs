//! Names that come again and again, kept so that each is allocated once.
//!
//! A connection sees a few aggregations' names, each thousands of times. The last few are kept in a row; a
//! name that is found steps one place towards the front, and a new one replaces the last. A peer that invents
//! names gains nothing: it makes this row useless to itself.

use std::sync::Arc;

/// Names kept at once.
const NAMES_MAX: usize = 16;

/// The row.
#[derive(Debug, Default)]
pub(super) struct Names {
    row: Vec<Arc<str>>,
}

impl Names {
    /// The name as a shared text.
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
    fn a_name_that_comes_again_is_the_same_allocation() {
        let mut names = Names::default();
        let first = names.intern("search/topk");
        assert!(Arc::ptr_eq(&first, &names.intern("search/topk")));
        (0..100).for_each(|n| drop(names.intern(&format!("strange/{n}"))));
        assert_eq!(names.row.len(), NAMES_MAX);
        assert!(Arc::ptr_eq(&first, &names.intern("search/topk")), "what is in front stays");
    }
}
