//! Single keys of a terminal, without Enter.

use std::future;
use std::io::{self, Read, Write};
use std::thread;

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::sync::mpsc::{Receiver, channel};

/// Keys that wait until they are looked at; more are left to the terminal.
const MOST_KEYS: usize = 16;

/// A terminal that tells of each key at once, and does not show it. With this, it becomes again what it was.
pub(super) struct Keys {
    before: Termios,
    pressed: Receiver<u8>,
}

impl Keys {
    /// Those of standard input; `None` if that is no terminal, or one that others use now.
    pub(super) fn of_terminal() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        // A process in the background is stopped when it reads.
        if tcgetpgrp(io::stdin()).is_ok_and(|group| group != getpgrp()) {
            return None;
        }
        let mut single = before.clone();
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        single.special_codes[SpecialCodeIndex::VMIN] = 1;
        single.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &single).ok()?;
        let (press, pressed) = channel(MOST_KEYS);
        // It waits for keys until the process ends.
        thread::spawn(move || {
            for key in io::stdin().lock().bytes().map_while(Result::ok) {
                if press.blocking_send(key).is_err() {
                    return;
                }
            }
        });
        Some(Self { before, pressed })
    }

    /// The next one. May be dropped and called again.
    pub(super) async fn next(&mut self) -> u8 {
        match self.pressed.recv().await {
            Some(key) => key,
            // The terminal is gone.
            None => future::pending().await,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // Nobody is left to be told that it failed. What comes next on the terminal begins on a line of its own.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        let _ = writeln!(io::stdout());
    }
}
