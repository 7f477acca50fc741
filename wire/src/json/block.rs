//! Short texts that are copied often.

/// How much is copied at once. A copy of a length that the compiler knows is a few instructions; of one that it does not
/// know it is a call.
const BLOCK_BYTES: usize = 64;

/// A text of any length, stored in whole blocks.
#[derive(Debug, Default)]
pub(super) struct Block {
    length: usize,
    blocks: Vec<[u8; BLOCK_BYTES]>,
}

impl Block {
    /// Becomes another text, in the same memory.
    pub(super) fn replace(&mut self, text: &[u8]) {
        self.length = text.len();
        self.blocks.clear();
        for part in text.chunks(BLOCK_BYTES) {
            let mut block = [0; BLOCK_BYTES];
            for (slot, byte) in block.iter_mut().zip(part) {
                *slot = *byte;
            }
            self.blocks.push(block);
        }
    }

    /// Appends the text.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.length;
        for block in &self.blocks {
            out.extend_from_slice(block);
        }
        out.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_every_length_are_copied() {
        let mut block = Block::default();
        for length in [0, 1, 63, 64, 65, 128, 200, 3] {
            let text: Vec<u8> = (0..length).collect();
            block.replace(&text);
            let mut out = vec![b'x'];
            block.write_to(&mut out);
            assert_eq!(out, [&b"x"[..], &text].concat());
        }
    }
}
