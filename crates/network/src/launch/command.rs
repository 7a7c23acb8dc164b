//! Command lines of processes, here and on other hosts.
//!
//! What runs on another host passes through two shells: the one that `ssh` gives its words to, whichever it is, and the
//! `sh` that this asks for. Every word is quoted for both. The token goes in by standard input, so that no list of
//! processes shows it.

use std::io;
use std::process::Stdio;
use std::sync::OnceLock;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use treefold::parts::wire::Token;

/// Where a process finds its cluster's token.
pub const TOKEN_VARIABLE: &str = "TREEFOLD_TOKEN";
/// The process that a process is tied to, which started it.
pub const TIED_VARIABLE: &str = "TREEFOLD_TIED_TO";
/// Set for processes that a parent has started: that one reads their standard error. Who was started by somebody else
/// writes to that one's log.
pub(super) const STARTED_VARIABLE: &str = "TREEFOLD_STARTED";
/// How long `ssh` tries to connect, in seconds.
const SSH_CONNECT_TIMEOUT_S: u32 = 10;

/// `ssh` that never asks a question and does not wait for ever.
pub fn ssh_default() -> Vec<String> {
    let timeout = format!("ConnectTimeout={SSH_CONNECT_TIMEOUT_S}");
    ["ssh", "-o", "BatchMode=yes", "-o", &timeout].map(str::to_owned).to_vec()
}

/// What a template's placeholders stand for.
#[derive(Clone, Debug)]
pub(super) struct Blanks<'a> {
    pub(super) attach: &'a str,
    pub(super) place: &'a str,
    pub(super) number: u32,
    pub(super) total: u32,
}

/// A template with its placeholders filled in.
pub(super) fn fill(template: &[String], blanks: &Blanks<'_>) -> Vec<String> {
    let fill = |word: &String| {
        let word = word.replace("{attach}", blanks.attach).replace("{place}", blanks.place);
        word.replace("{number}", &blanks.number.to_string()).replace("{total}", &blanks.total.to_string())
    };
    template.iter().map(fill).collect()
}

/// One word for a POSIX shell, whatever is in it.
pub fn quote(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Words for a POSIX shell.
pub fn quote_all<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    words.into_iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

/// What `ssh` is given to run.
fn remote_command(words: &[String], has_token: bool) -> String {
    let run = format!("export {STARTED_VARIABLE}=1 && exec {}", quote_all(words));
    let script = if has_token {
        format!("IFS= read -r {TOKEN_VARIABLE} && export {TOKEN_VARIABLE} && {run}")
    } else {
        run
    };
    format!("exec sh -c {}", quote(&script))
}

/// True for names of this machine.
pub(super) fn is_here(host: &str) -> bool {
    if ["localhost", "127.0.0.1", "::1"].contains(&host) {
        return true;
    }
    host_name().is_some_and(|own| own == host || own.split('.').next() == Some(host))
}

fn host_name() -> Option<&'static str> {
    static HOST_NAME: OnceLock<Option<String>> = OnceLock::new();
    HOST_NAME.get_or_init(ask_host_name).as_deref()
}

fn ask_host_name() -> Option<String> {
    let mut buffer = [0_u8; 256];
    // SAFETY: the buffer is writable for its whole length.
    if unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len()) } != 0 {
        return None;
    }
    let end = buffer.iter().position(|&byte| byte == 0)?;
    String::from_utf8(buffer[..end].to_vec()).ok()
}

/// Starts a process here. It is in a group of its own: Ctrl-C at a terminal is the front-end's to act on.
pub(super) fn start_here(words: &[String], token: Option<&Token>, is_tied: bool) -> io::Result<Child> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).env(STARTED_VARIABLE, "1").stdin(Stdio::null());
    if let Some(token) = token {
        command.env(TOKEN_VARIABLE, token.reveal());
    }
    if is_tied {
        command.env(TIED_VARIABLE, std::process::id().to_string());
    } else {
        command.env_remove(TIED_VARIABLE);
    }
    spawn(&mut command)
}

/// Starts a process on another host.
pub(super) fn start_there(
    ssh: &[String],
    host: &str,
    words: &[String],
    token: Option<&Token>,
) -> io::Result<Child> {
    let (program, options) = ssh.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(options).arg("--").arg(host).arg(remote_command(words, token.is_some()));
    command.env_remove(TOKEN_VARIABLE).stdin(if token.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = spawn(&mut command)?;
    if let (Some(mut stdin), Some(token)) = (child.stdin.take(), token) {
        let line = format!("{}\n", token.reveal());
        // It fits a pipe's buffer; who ends before reading it says why by ending.
        tokio::spawn(async move { stdin.write_all(line.as_bytes()).await });
    }
    Ok(child)
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0).spawn()
}

/// Has the kernel end this process when the one that started it ends, if that was asked for.
///
/// # Errors
/// When that one has ended already.
#[cfg(target_os = "linux")]
pub fn tie_to_parent() -> io::Result<()> {
    let Some(parent) = std::env::var(TIED_VARIABLE).ok().and_then(|text| text.parse::<u32>().ok()) else {
        return Ok(());
    };
    // SAFETY: neither call touches memory.
    let (refused, actual) =
        unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0, libc::getppid().unsigned_abs()) };
    match (refused, actual == parent) {
        (true, _) => Err(io::Error::last_os_error()),
        (_, true) => Ok(()),
        // It died before it could be tied to.
        (_, false) => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Elsewhere than on Linux, a process finds out by its connection.
#[cfg(not(target_os = "linux"))]
pub fn tie_to_parent() -> io::Result<()> {
    Ok(())
}

/// Allows this process so many open files more, as far as the system lets it: a child costs three.
pub(super) fn allow_files(more: usize) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is writable, and read only.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            let wanted = (more as libc::rlim_t).saturating_add(256).min(limit.rlim_max);
            if limit.rlim_cur < wanted {
                limit.rlim_cur = wanted;
                // What is not granted shows when a child can't be started.
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn placeholders_are_filled_in_wherever_they_stand() {
        let template = words(&["node", "--as={place}", "x:partitions={number}/{total}", "{attach}"]);
        let filled = fill(&template, &Blanks { attach: "h:1", place: "a:0", number: 3, total: 9 });
        assert_eq!(filled, ["node", "--as=a:0", "x:partitions=3/9", "h:1"]);
    }

    #[test]
    fn two_shells_leave_every_word_as_it_was() {
        let nasty = words(&["/bin/echo", "", "a b", "it's", "$HOME `id` \"x\" \\ ! *", "line\nend", "-n;"]);
        let mut echo = words(&["printf", "<%s>"]);
        echo.extend(nasty.iter().cloned());
        let output = std::process::Command::new("sh").arg("-c").arg(remote_command(&echo, false)).output();
        let expected: String = nasty.iter().map(|word| format!("<{word}>")).collect();
        assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), expected);
    }

    #[test]
    fn the_token_comes_by_standard_input() {
        use std::io::Write;
        let show = words(&["sh", "-c", "printf %s \"$TREEFOLD_TOKEN\""]);
        assert!(!remote_command(&show, true).contains("secret"));
        let mut child = std::process::Command::new("sh")
            .args(["-c", &remote_command(&show, true)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b" secret\\n 'x'\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), " secret\\n 'x'");
    }
}
