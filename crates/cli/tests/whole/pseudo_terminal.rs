//! A pseudo-terminal whose other end a test holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A program on its own terminal, killed when dropped.
pub(crate) struct OnTerminal {
    pub(crate) child: Child,
    keyboard: File,
    /// The program's side, kept open so that the test can read the terminal's modes after the program has
    /// ended.
    line: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    /// Starts `command` on a terminal of this size.
    pub(crate) fn start(mut command: Command, columns: u16, lines: u16) -> Self {
        let (keyboard, line) = pair(columns, lines);
        let side = || Stdio::from(line.try_clone().expect("a descriptor"));
        command.stdin(side()).stdout(side()).stderr(side());
        // SAFETY: between fork and exec these two system calls touch no memory of this process.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("the program can be started");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, kept) = (keyboard.try_clone().expect("a descriptor"), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The thread ends with the terminal.
            while let Ok(bytes @ 1..) = screen.read(&mut buffer) {
                kept.lock().expect("no thread panicked").extend_from_slice(&buffer[..bytes]);
            }
        });
        Self { child, keyboard, line, shown }
    }

    /// Returns all output so far, with its control sequences.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("no thread panicked")).into_owned()
    }

    /// Returns the text on the screen, line by line.
    ///
    /// Programs send differences between pictures, so that a word may come in parts. This follows the moves of the
    /// cursor, and ignores colours.
    pub(crate) fn screen(&self) -> String {
        let shown = self.shown();
        let mut cells: BTreeMap<(usize, usize), char> = BTreeMap::new();
        let (mut line, mut column) = (1, 1);
        let mut rest = shown.chars();
        while let Some(c) = rest.next() {
            match c {
                '\u{1b}' if rest.as_str().starts_with('[') => {
                    rest.next();
                    let end = rest.as_str().find(|c: char| c.is_ascii_alphabetic()).map_or(0, |at| at + 1);
                    let sequence: String = rest.by_ref().take(end).collect();
                    let (numbers, end) = sequence.split_at(sequence.len().saturating_sub(1));
                    let mut numbers = numbers.split(';').map(|number| number.parse().unwrap_or(1));
                    match end {
                        "H" => {
                            line = numbers.next().unwrap_or(1);
                            column = numbers.next().unwrap_or(1);
                        }
                        "J" => cells.clear(),
                        _ => {}
                    }
                }
                '\n' => line += 1,
                '\r' => column = 1,
                c if c.is_control() => {}
                c => {
                    cells.insert((line, column), c);
                    column += 1;
                }
            }
        }
        let mut text = String::new();
        let mut at = (1, 1);
        for ((line, column), c) in cells {
            if line > at.0 {
                text.push('\n');
                at = (line, 1);
            }
            text.extend(std::iter::repeat_n(' ', column.saturating_sub(at.1)));
            text.push(c);
            at.1 = column + 1;
        }
        text
    }

    /// Sends key presses.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Resizes the terminal.
    ///
    /// The kernel informs the program.
    pub(crate) fn resize(&self, columns: u16, lines: u16) {
        let size = size(columns, lines);
        // SAFETY: the kernel reads one structure that outlives the call.
        assert_eq!(unsafe { libc::ioctl(self.line.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }, 0);
    }

    /// Returns true if keys are echoed and gathered into lines, as a shell sets it.
    pub(crate) fn is_as_a_shell_wants_it(&self) -> bool {
        // SAFETY: the kernel fills one structure of plain integers.
        let modes = unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.line.as_raw_fd(), &raw mut modes), 0);
            modes
        };
        let wanted = libc::ICANON | libc::ECHO | libc::ISIG;
        modes.c_lflag & wanted == wanted
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // An error means that the process is dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(columns: u16, lines: u16) -> libc::winsize {
    libc::winsize { ws_col: columns, ws_row: lines, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Returns both ends of a new terminal.
fn pair(columns: u16, lines: u16) -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let mut size = size(columns, lines);
    // SAFETY: openpty writes two descriptors and reads one structure; the null pointers are optional
    // arguments. The descriptor of fcntl is open.
    unsafe {
        let opened = libc::openpty(
            &raw mut ours,
            &raw mut theirs,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            &raw mut size,
        );
        assert_eq!(opened, 0, "a terminal can be opened");
        // A program that held our end would not notice that this test has ended.
        assert_eq!(libc::fcntl(ours, libc::F_SETFD, libc::FD_CLOEXEC), 0, "a descriptor");
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}
