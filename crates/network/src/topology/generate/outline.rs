//! Layouts without hosts: the children of each process. Number 0 is the root; leaves are back-ends.

use super::Layout;

/// The children's numbers for each process. A process without children is a back-end.
#[derive(Debug, Default)]
pub(super) struct Outline {
    pub(super) children: Vec<Vec<u32>>,
}

impl Outline {
    /// Builds the outline of a layout with `back_ends` back-ends, at least one.
    pub(super) fn draw(layout: &Layout, back_ends: u32) -> Self {
        assert!(back_ends > 0, "invariant: a tree has at least one leaf");
        let mut outline = Self::default();
        let root = outline.add();
        match layout {
            Layout::Flat => outline.add_leaves(root, back_ends),
            Layout::Kary(k) => outline.divide(root, back_ends, *k),
            Layout::Binomial { attached } => outline.grow_binomial(back_ends, *attached),
            Layout::Balanced(fan_outs) => outline.grow_levels(root, fan_outs),
        }
        outline
    }

    fn add(&mut self) -> u32 {
        self.children.push(Vec::new());
        self.children.len() as u32 - 1
    }

    fn add_below(&mut self, parent: u32) -> u32 {
        let child = self.add();
        self.children[parent as usize].push(child);
        child
    }

    fn add_leaves(&mut self, parent: u32, count: u32) {
        (0..count).for_each(|_| {
            self.add_below(parent);
        });
    }

    /// Distributes leaves over the fewest children that have room for them, each with at most `k` children.
    /// All leaves end up within one level of each other, because shares differ by at most one leaf.
    fn divide(&mut self, parent: u32, leaves: u32, k: u32) {
        if leaves <= k {
            self.add_leaves(parent, leaves);
            return;
        }
        // The room of one child if the tree has the least possible depth.
        let mut room = u64::from(k);
        while room * u64::from(k) < u64::from(leaves) {
            room *= u64::from(k);
        }
        let shares = u64::from(leaves).div_ceil(room) as u32;
        for share in 0..shares {
            let child = self.add_below(parent);
            let leaves = share_of(leaves, shares, share);
            // No inner process is added between a single leaf and its parent.
            if leaves > 1 {
                self.divide(child, leaves, k);
            }
        }
    }

    /// The parent of number i is i without its lowest set bit, so that larger subtrees come first. Leaves are
    /// distributed evenly and come after the subtrees, because the subtrees' packets have the longer way.
    fn grow_binomial(&mut self, leaves: u32, attached: u32) {
        let inner = leaves.div_ceil(attached);
        (1..inner).for_each(|_| {
            self.add();
        });
        // In descending order, so that each parent's children begin with the largest subtree.
        for number in (1..inner).rev() {
            self.children[(number & (number - 1)) as usize].push(number);
        }
        for number in 0..inner {
            self.add_leaves(number, share_of(leaves, inner, number));
        }
    }

    fn grow_levels(&mut self, root: u32, fan_outs: &[u32]) {
        let mut level = vec![root];
        for &fan_out in fan_outs {
            let next = level.iter().flat_map(|&parent| (0..fan_out).map(move |_| parent));
            level = next.collect::<Vec<u32>>().into_iter().map(|parent| self.add_below(parent)).collect();
        }
    }

    /// The numbers in preorder.
    pub(super) fn preorder(&self) -> Vec<u32> {
        let mut row = Vec::with_capacity(self.children.len());
        let mut open = vec![0];
        while let Some(number) = open.pop() {
            row.push(number);
            open.extend(self.children[number as usize].iter().rev());
        }
        row
    }
}

/// The size of one share when `whole` is distributed evenly. The first shares get the remainder.
fn share_of(whole: u32, shares: u32, share: u32) -> u32 {
    whole / shares + u32::from(share < whole % shares)
}
