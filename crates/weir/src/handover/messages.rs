//! What two processes say to each other: a word at a time, with listening sockets beside it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg,
    sendmsg,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// It hands over; sockets come with it.
pub(super) const YES: &str = "yes";
/// It does not.
pub(super) const NO: &str = "no";
/// The directory is free.
pub(super) const FREE: &str = "free";

/// Words are short: names of pods, at most.
const MAX_WORD: usize = 256;
/// Sockets beside a word: those of gRPC and HTTP.
const MAX_SOCKETS: usize = 4;

/// Says a word, and gives sockets away.
pub(super) async fn say(stream: &UnixStream, word: &str, sockets: &[OwnedFd]) -> io::Result<()> {
    let text = format!("{word}\n");
    let sockets: Vec<BorrowedFd<'_>> = sockets.iter().take(MAX_SOCKETS).map(AsFd::as_fd).collect();
    let sent = stream.async_io(Interest::WRITABLE, || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&sockets)) {
            return Err(io::Error::other("no room for so many sockets"));
        }
        Ok(sendmsg(stream, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)?)
    });
    if sent.await? == text.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// A word. Sockets beside it are closed.
///
/// # Errors
/// Also when the other says nothing more.
pub(super) async fn hear(stream: &UnixStream) -> io::Result<String> {
    Ok(hear_with_sockets(stream).await?.0)
}

/// A word, and the sockets beside it. May be dropped and called again.
pub(super) async fn hear_with_sockets(stream: &UnixStream) -> io::Result<(String, Vec<OwnedFd>)> {
    let mut word = Vec::new();
    let mut sockets = Vec::new();
    // One after the other, so that nothing of the next word is taken.
    while word.last() != Some(&b'\n') {
        let mut byte = [0];
        let read = stream.async_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let message = recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
            let rights = control.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                _ => None,
            });
            sockets.extend(rights.flatten());
            Ok(message.bytes)
        });
        if read.await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if word.len() == MAX_WORD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        word.extend(byte);
    }
    word.pop();
    Ok((String::from_utf8_lossy(&word).into_owned(), sockets))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn words_arrive_whole_with_their_sockets() {
        let (a, b) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        say(&a, YES, &[listener.into()]).await.unwrap();
        say(&a, FREE, &[]).await.unwrap();
        let (word, sockets) = hear_with_sockets(&b).await.unwrap();
        assert_eq!((word.as_str(), sockets.len()), (YES, 1));
        let inherited = TcpListener::from(sockets.into_iter().next().unwrap());
        assert_eq!(inherited.local_addr().unwrap(), address);
        assert_eq!(hear(&b).await.unwrap(), FREE);
        drop(a);
        assert_eq!(hear(&b).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn whoever_talks_without_end_is_not_heard() {
        let (a, b) = UnixStream::pair().unwrap();
        say(&a, &"x".repeat(2 * MAX_WORD), &[]).await.unwrap();
        assert_eq!(hear(&b).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
