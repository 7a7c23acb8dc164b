//! Layouts without hosts: who has how many children. Number 0 is the root; leaves are back-ends.

use super::Layout;

/// Children by number, for each process. Whoever has none is a back-end.
#[derive(Debug, Default)]
pub(super) struct Outline {
    pub(super) children: Vec<Vec<u32>>,
}

impl Outline {
    /// Draws a layout for so many back-ends, at least one.
    pub(super) fn draw(layout: &Layout, back_ends: u32) -> Self {
        assert!(back_ends > 0, "invariant: nobody asks for a tree without leaves");
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

    /// Shares leaves out over as few children as have room for them, each with `k` children at most. All leaves end
    /// up within one level of each other, since shares differ by one leaf at most.
    fn divide(&mut self, parent: u32, leaves: u32, k: u32) {
        if leaves <= k {
            self.add_leaves(parent, leaves);
            return;
        }
        // What one child has room for when the tree is no deeper than it must be.
        let mut room = u64::from(k);
        while room * u64::from(k) < u64::from(leaves) {
            room *= u64::from(k);
        }
        let shares = u64::from(leaves).div_ceil(room) as u32;
        for share in 0..shares {
            let child = self.add_below(parent);
            let leaves = share_of(leaves, shares, share);
            // Nobody stands between a single leaf and its parent.
            if leaves > 1 {
                self.divide(child, leaves, k);
            }
        }
    }

    /// Number i stands below i without its lowest set bit, so that larger subtrees are further left. Leaves are
    /// shared out evenly, and stand right of the subtrees: these have the longer way to go.
    fn grow_binomial(&mut self, leaves: u32, attached: u32) {
        let inner = leaves.div_ceil(attached);
        (1..inner).for_each(|_| {
            self.add();
        });
        // Counted down, so that each parent's children come with the largest subtree first.
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

    /// Numbers in preorder.
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

/// What one of several gets when `whole` is shared out evenly, the first getting what is left over.
fn share_of(whole: u32, shares: u32, share: u32) -> u32 {
    whole / shares + u32::from(share < whole % shares)
}
