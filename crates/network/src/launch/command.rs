//! Command lines of processes, on this host and on others.
//!
//! A command for another host passes through two shells: the remote user's shell, to which `ssh` passes it,
//! and the `sh` that this shell starts. Every word is quoted for both. The token is sent on standard input,
//! so that no process list shows it.

use std::io;
use std::process::Stdio;
use std::sync::OnceLock;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use treefold::Credentials;
use treefold::parts::wire::Token;

const TOKEN_VARIABLE: &str = Token::VARIABLE;
/// Environment variable with the id of the parent process to which this process is tied.
pub const TIED_VARIABLE: &str = "TREEFOLD_TIED_TO";
/// Set for processes that a parent has started and whose standard error it reads. The standard error of other
/// processes goes to the log of their own starter.
pub(super) const STARTED_VARIABLE: &str = "TREEFOLD_STARTED";
/// Time limit of `ssh` for connecting, in seconds.
const SSH_CONNECT_TIMEOUT_S: u32 = 10;

/// An `ssh` command that never prompts and has a time limit for connecting.
pub fn ssh_default() -> Vec<String> {
    let timeout = format!("ConnectTimeout={SSH_CONNECT_TIMEOUT_S}");
    ["ssh", "-o", "BatchMode=yes", "-o", &timeout].map(str::to_owned).to_vec()
}

/// The values of a template's placeholders.
#[derive(Clone, Debug)]
pub(super) struct Blanks<'a> {
    pub(super) attach: &'a str,
    pub(super) place: &'a str,
    pub(super) number: u32,
    pub(super) total: u32,
}

/// Fills in a template's placeholders.
pub(super) fn fill(template: &[String], blanks: &Blanks<'_>) -> Vec<String> {
    let fill = |word: &String| {
        let word = word.replace("{attach}", blanks.attach).replace("{place}", blanks.place);
        word.replace("{number}", &blanks.number.to_string()).replace("{total}", &blanks.total.to_string())
    };
    template.iter().map(fill).collect()
}

/// A node's command line in a network, for the words of the command `treefold`.
pub fn node_command(program: &[String]) -> Vec<String> {
    let node = ["node", "--attach", "{attach}", "--as", "{place}", "--workers", "1"].map(str::to_owned);
    program.iter().cloned().chain(node).collect()
}

/// Quotes any word for a POSIX shell.
pub fn quote(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Quotes words for a POSIX shell.
pub fn quote_all<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    words.into_iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

/// The command for `ssh` to run.
fn remote_command(words: &[String], has_token: bool) -> String {
    let run = format!("export {STARTED_VARIABLE}=1 && exec {}", quote_all(words));
    let script = if has_token {
        format!("IFS= read -r {TOKEN_VARIABLE} && export {TOKEN_VARIABLE} && {run}")
    } else {
        run
    };
    format!("exec sh -c {}", quote(&script))
}

/// Returns true for names of this machine.
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

/// Starts a process on this host, in a separate process group: only the front-end reacts to Ctrl-C at a
/// terminal.
pub(super) fn start_here(words: &[String], token: Option<&Token>, is_tied: bool) -> io::Result<Child> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).env(STARTED_VARIABLE, "1").stdin(Stdio::null());
    if let Some(token) = token {
        // The processes of a network have a token instead of keys.
        command.env(TOKEN_VARIABLE, token.reveal()).env_remove(Credentials::VARIABLE);
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
        // The line fits in a pipe's buffer. If the process ends before it reads the line, its exit status
        // tells why.
        tokio::spawn(async move { stdin.write_all(line.as_bytes()).await });
    }
    Ok(child)
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0).spawn()
}

/// Makes the kernel end this process when its parent ends, if the parent asked for it.
///
/// # Errors
/// If the parent has already ended.
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
        // The parent died before this process was tied to it.
        (_, false) => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// On other systems, a process notices by its connection that its parent has ended.
#[cfg(not(target_os = "linux"))]
pub fn tie_to_parent() -> io::Result<()> {
    Ok(())
}

/// Raises this process's limit of open files to `more` plus a reserve, as far as the system allows.
pub(super) fn allow_files(more: usize) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is writable for the first call and only read by the second.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            let wanted = (more as libc::rlim_t).saturating_add(256).min(limit.rlim_max);
            if limit.rlim_cur < wanted {
                limit.rlim_cur = wanted;
                // If the limit is too low, starting a child fails with an error.
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
    fn placeholders_are_filled_in_anywhere_in_a_word() {
        let template = words(&["node", "--as={place}", "x:partitions={number}/{total}", "{attach}"]);
        let filled = fill(&template, &Blanks { attach: "h:1", place: "a:0", number: 3, total: 9 });
        assert_eq!(filled, ["node", "--as=a:0", "x:partitions=3/9", "h:1"]);
    }

    #[test]
    fn quoted_words_pass_two_shells_unchanged() {
        let nasty = words(&["/bin/echo", "", "a b", "it's", "$HOME `id` \"x\" \\ ! *", "line\nend", "-n;"]);
        let mut echo = words(&["printf", "<%s>"]);
        echo.extend(nasty.iter().cloned());
        let output = std::process::Command::new("sh").arg("-c").arg(remote_command(&echo, false)).output();
        let expected: String = nasty.iter().map(|word| format!("<{word}>")).collect();
        assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), expected);
    }

    #[test]
    fn the_token_is_read_from_standard_input() {
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
