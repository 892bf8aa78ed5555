//! Connections whose other side must take what it is sent: something of it ever again, and all of it in time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// All of an answer must be taken within so many times the patience.
const WHOLE: u32 = 4;

/// A stream that gives up when nothing could be written for some time, or not all for a longer time.
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while there is something to write.
    waits: Option<Pin<Box<Sleep>>>,
    /// When all must have been written; from the first byte that waits until nothing does.
    end: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waits: None, end: None }
    }

    fn judge<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if self.end.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready()) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if outcome.is_ready() {
            self.waits = None;
            return outcome;
        }
        let patience = self.patience;
        // Most answers are written at once and need no clock.
        self.end.get_or_insert_with(|| Box::pin(sleep(patience * WHOLE)));
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(patience)));
        if waits.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        waits.as_mut().reset(Instant::now() + patience);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The server flushes when it has written all that it has to say.
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        let outcome = self.judge(context, outcome);
        if outcome.is_ready() {
            self.end = None;
        }
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.judge(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn who_takes_a_little_ever_again_is_given_up() {
        let patience = Duration::from_millis(200);
        let (stream, mut other) = tokio::io::duplex(1024);
        let mut stream = Patient::new(stream, patience);
        let taker = tokio::spawn(async move {
            let mut piece = [0; 16];
            while other.read_exact(&mut piece).await.is_ok() {
                sleep(Duration::from_millis(20)).await;
            }
        });
        let begin = Instant::now();
        let written = stream.write_all(&vec![0; 1 << 20]).await;
        assert_eq!(written.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        assert!(begin.elapsed() >= patience * WHOLE, "something was taken all the time");
        drop(stream);
        assert!(taker.await.is_ok());
    }

    #[tokio::test]
    async fn who_takes_everything_has_time_anew() -> io::Result<()> {
        let (stream, mut other) = tokio::io::duplex(1024);
        let mut stream = Patient::new(stream, Duration::from_millis(250));
        for _ in 0..10 {
            let (mut taken, sent) = (vec![0; 4096], vec![1; 4096]);
            let send = async {
                stream.write_all(&sent).await?;
                stream.flush().await
            };
            let (sent, read) = tokio::join!(send, other.read_exact(&mut taken));
            sent.and(read)?;
            sleep(Duration::from_millis(200)).await; // twice as long as all may take, in the end
        }
        Ok(())
    }
}
