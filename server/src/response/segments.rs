//! The body of a response in segments, which is sent with as few system calls as possible and freed while it is sent. A
//! stream of pieces may follow.

use crate::limits::connections::RequestInProgress;
use crate::limits::memory::MemoryPermit;
use bytes::{Buf, Bytes};
use futures_util::Stream;
use hyper::body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A body as one frame, because the HTTP library would send several large frames with one system call each.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    unsent: UnsentBody,
    /// Follows the segments.
    stream: Option<ByteStream>,
    /// The request of a stream.
    streaming: Option<RequestInProgress>,
}

pub(crate) type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Pieces of a body. The next one is requested when most of the previous ones have been sent.
pub(crate) struct ByteStream(pub(super) Pieces);

impl fmt::Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByteStream")
    }
}

#[derive(Debug, Default)]
pub(crate) struct UnsentBody {
    /// Contains no empty segments.
    segments: VecDeque<Bytes>,
    bytes: usize,
    /// The permit for the memory of the body, released when the body has been sent.
    _memory: MemoryPermit,
    /// The request, which is in progress until its response has been sent.
    request: Option<RequestInProgress>,
}

impl Segments {
    pub(crate) fn new(segments: Vec<Bytes>, memory: MemoryPermit) -> Self {
        let mut segments = VecDeque::from(segments);
        segments.retain(|segment| !segment.is_empty());
        let bytes = segments.iter().map(Bytes::len).sum();
        let unsent = UnsentBody { segments, bytes, _memory: memory, request: None };
        Self { unsent, stream: None, streaming: None }
    }

    pub(crate) fn followed_by(self, stream: Option<ByteStream>) -> Self {
        Self { stream, ..self }
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    pub(crate) fn hold_request(&mut self, request: RequestInProgress) {
        let holder = if self.is_stream() { &mut self.streaming } else { &mut self.unsent.request };
        *holder = Some(request);
    }

    pub(crate) fn len(&self) -> u64 {
        self.unsent.bytes as u64
    }
}

impl Body for Segments {
    type Data = UnsentBody;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<UnsentBody>, Infallible>>> {
        let unsent = std::mem::take(&mut self.unsent);
        let Some(ByteStream(pieces)) = self.stream.as_mut().filter(|_| unsent.bytes == 0) else {
            return Poll::Ready((unsent.bytes > 0).then(|| Ok(Frame::data(unsent))));
        };
        let piece = ready!(pieces.as_mut().poll_next(cx));
        Poll::Ready(piece.map(|piece| {
            let (bytes, segments) = (piece.len(), VecDeque::from([piece]));
            Ok(Frame::data(UnsentBody { segments, bytes, ..UnsentBody::default() }))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.unsent.bytes == 0 && !self.is_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_stream() { SizeHint::default() } else { SizeHint::with_exact(self.len()) }
    }
}

impl Buf for UnsentBody {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.segments.front().map(Bytes::as_ref).unwrap_or_default()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let shown = slices.iter_mut().zip(&self.segments);
        shown.map(|(slice, segment)| *slice = IoSlice::new(segment)).count()
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.bytes, "the HTTP library does not advance past the end of the body");
        self.bytes -= count;
        let mut left = count;
        while let Some(front) = self.segments.front_mut() {
            if left < front.len() {
                return front.advance(left);
            }
            left -= front.len();
            self.segments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    fn unsent(segments: &[&'static [u8]]) -> UnsentBody {
        let segments = segments.iter().map(|segment| Bytes::from_static(segment)).collect();
        Segments::new(segments, MemoryPermit::default()).unsent
    }

    #[test]
    fn what_was_sent_is_freed_segment_by_segment() {
        for sent in 0..=9 {
            let mut unsent = unsent(&[b"one", b"", b"three", b"x"]);
            unsent.advance(sent);
            assert_eq!(unsent.remaining(), 9 - sent);
            let mut slices = [IoSlice::new(b""); 8];
            let shown = unsent.chunks_vectored(&mut slices);
            let rest: Vec<u8> = slices.iter().take(shown).flat_map(|slice| slice.to_vec()).collect();
            assert_eq!(rest, b"onethreex"[sent..], "after {sent}");
            assert_eq!(unsent.chunk().is_empty(), sent == 9);
            assert!(unsent.segments.len() <= shown, "segments that were sent are dropped");
        }
    }

    #[test]
    fn fewer_slices_than_segments_show_the_first_ones() {
        let unsent = unsent(&[b"one", b"two", b"three"]);
        let mut slices = [IoSlice::new(b""); 2];
        assert_eq!(unsent.chunks_vectored(&mut slices), 2);
        assert_eq!((&*slices[0], &*slices[1]), (&b"one"[..], &b"two"[..]));
    }

    #[tokio::test]
    async fn a_body_is_one_frame() {
        let mut body = Segments { unsent: unsent(&[b"one", b"two"]), ..Segments::default() };
        assert_eq!((body.len(), body.is_end_stream()), (6, false));
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap().copy_to_bytes(6), "onetwo");
        assert!(body.is_end_stream() && body.frame().await.is_none());
        assert!(Segments::default().is_end_stream());
    }
}
