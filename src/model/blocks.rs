use std::{mem, slice};

use super::Content;

/// The blocks of a result. Nearly every result has one, which is held in place.
///
/// A small vector would do the same, but this tells the compiler where it has room for the tags of the enums around it: in a
/// field of full width. With a tag of a single byte, results are moved in pieces, which costs several times as much.
#[derive(Clone, Debug)]
pub(super) enum Blocks {
    One(Content),
    Many(Vec<Content>),
}

impl Default for Blocks {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Blocks {
    pub(super) fn as_slice(&self) -> &[Content] {
        match self {
            Self::One(block) => slice::from_ref(block),
            Self::Many(blocks) => blocks,
        }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Content] {
        match self {
            Self::One(block) => slice::from_mut(block),
            Self::Many(blocks) => blocks,
        }
    }

    pub(super) fn push(&mut self, block: Content) {
        *self = match mem::take(self) {
            Self::One(first) => Self::Many(vec![first, block]),
            Self::Many(blocks) if blocks.is_empty() => Self::One(block),
            Self::Many(mut blocks) => {
                blocks.push(block);
                Self::Many(blocks)
            }
        };
    }
}

impl FromIterator<Content> for Blocks {
    fn from_iter<I: IntoIterator<Item = Content>>(blocks: I) -> Self {
        let mut all = Self::default();
        blocks.into_iter().for_each(|block| all.push(block));
        all
    }
}
