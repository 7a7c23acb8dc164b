//! Doors that must not stand open, and secrets that must not be seen.

use super::Attack;
use crate::cluster::{Cluster, contains, random_token};
use crate::finding::{Finding, Setback};
use crate::lab::Lab;
use crate::wire::{Peer, client_name, hello_bytes};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use treefold::parts::wire::Hello;
use treefold::{ClusterOptions, Token};

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "exposed-listener",
        about: "starts nodes that would listen beyond this machine without a token",
        play: expose,
    },
    Attack {
        name: "useless-seeds",
        about: "joins addresses that can never be reached, and seeds that do not answer or have another token",
        play: join_nowhere,
    },
    Attack {
        name: "secrets",
        about: "looks for the token in logs, recordings, command lines and error texts, and for the cluster's name \
        in refusals",
        play: look_for_secrets,
    },
];

/// The exit code for arguments that are refused.
const USAGE: Option<i32> = Some(2);
/// Time in which a node says why a seed is useless.
const SAY_TIME: Duration = Duration::from_secs(4);
const CALLS: usize = 3;
const OWNER_ONLY: u32 = 0o600;

fn expose(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start(lab, 1)?;
    let (mut refused, mut told) = (0, Vec::new());
    let listens = ["0.0.0.0:0", "[::]:0"];
    for listen in listens {
        let ended = cluster.refused(&["--listen", listen])?;
        let names_ways_out = ended.stderr.contains("TREEFOLD_TOKEN") && ended.stderr.contains("--insecure");
        refused += usize::from(ended.code == USAGE && names_ways_out);
        told.push(format!("{listen}: exit code {:?}, {:?}", ended.code, ended.stderr.trim()));
    }
    let seen = format!(
        "{refused} of {} were refused with exit code 2 and the ways out; {}",
        listens.len(),
        told.join("; ")
    );
    Ok(Finding::new(refused == listens.len(), seen))
}

fn join_nowhere(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start_with_token(lab, 2)?;
    let (mut refused, never) = (0, ["127.0.0.1", "127.0.0.1:99999", ":7700"]);
    for seed in never {
        refused += usize::from(cluster.refused(&["--listen", "127.0.0.1:0", "--join", seed])?.code == USAGE);
    }
    let nobody = crate::cluster::free_addr()?.to_string();
    let member = cluster.nodes[0].addr.to_string();
    let wrong = random_token()?;
    let (mut said, mut silent) = (0, Vec::new());
    for (what, token, seed) in [
        ("a seed that does not listen", cluster.token.as_deref(), &nobody),
        ("another token", Some(wrong.as_str()), &member),
        ("no token", None, &member),
    ] {
        let words = ["--listen", "127.0.0.1:0", "--join", seed];
        let node = cluster.run_briefly(token, &words, SAY_TIME)?;
        if node.stderr.contains(seed.as_str()) {
            said += 1;
        } else {
            silent.push(what);
        }
    }
    let seen = format!(
        "{refused} of {} addresses that can never be reached were refused with exit code 2; {said} of 3 useless \
        seeds were named in the \
         node's log{}",
        never.len(),
        if silent.is_empty() { String::new() } else { format!(" (not: {})", silent.join(", ")) }
    );
    Ok(Finding::new(refused == never.len() && silent.is_empty(), seen))
}

fn look_for_secrets(lab: &Lab) -> Result<Finding, Setback> {
    let token = random_token()?;
    let mut cluster = Cluster::empty(lab, 2, Some(token.clone()))?;
    let recordings: Vec<PathBuf> = (0..2).map(|at| cluster.file(&format!("node-{at}.recording"))).collect();
    for recording in &recordings {
        let path = recording.display().to_string();
        cluster.add(&["--listen", "127.0.0.1:0", "--record", &path])?;
    }
    cluster.ready()?;
    let addr = cluster.nodes[0].addr;
    let wrong = Token::new(random_token()?);
    let mut errors = String::new();
    for options in
        [ClusterOptions::new(&cluster.name), ClusterOptions::new(&cluster.name).token(wrong.clone())]
    {
        let error = cluster.client_of(addr, options).err();
        errors.push_str(&error.map_or(String::new(), |error| format!("{error} {error:?} ")));
    }
    let words = ["--listen", "127.0.0.1:0", "--join", &addr.to_string()];
    errors.push_str(&cluster.run_briefly(wrong.as_ref().map(Token::reveal), &words, SAY_TIME)?.stderr);
    let tally = cluster.calls(CALLS, &cluster.places());
    let mut leaks = Vec::new();
    for node in &cluster.nodes {
        let command_line = PathBuf::from(format!("/proc/{}/cmdline", node.process));
        if contains(&command_line, &token)? {
            leaks.push("a command line".to_owned());
        }
    }
    let name_told = names_cluster(&cluster)?;
    for at in cluster.places() {
        cluster.kill(at)?;
    }
    let mut readable = Vec::new();
    for entry in fs::read_dir(cluster.directory.path()).map_err(Setback::doing("list the nodes' files"))? {
        let path = entry.map_err(Setback::doing("list the nodes' files"))?.path();
        if contains(&path, &token)? {
            leaks.push(path.display().to_string());
        }
    }
    for recording in &recordings {
        let metadata = fs::metadata(recording).map_err(Setback::doing("look at a recording"))?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode != OWNER_ONLY || metadata.len() == 0 {
            readable.push(format!("{mode:o}, {} bytes", metadata.len()));
        }
    }
    if errors.contains(&token) {
        leaks.push("an error text".to_owned());
    }
    let seen = format!(
        "the token was found in {}; {} of {} recordings are not for their owner alone{}; {name_told} of 2 refusals \
        told a stranger the \
         cluster's name; {}",
        if leaks.is_empty() {
            "no log, recording, command line or error text".to_owned()
        } else {
            leaks.join(", ")
        },
        readable.len(),
        recordings.len(),
        if readable.is_empty() { String::new() } else { format!(" ({})", readable.join("; ")) },
        tally.text()
    );
    let refused = leaks.is_empty() && readable.is_empty() && name_told == 0 && tally.is_full();
    Ok(Finding::new(refused, seen))
}

/// The number of refusals that contain the cluster's name: of a plain stranger, and of one who names another cluster at a node
/// without a token.
fn names_cluster(cluster: &Cluster<'_>) -> Result<usize, Setback> {
    let open = Cluster::start(cluster.lab(), 1)?;
    let mut told = 0;
    for addr in [cluster.nodes[0].addr, open.nodes[0].addr] {
        let mut peer = Peer::plain(addr).map_err(Setback::doing("connect"))?;
        let greeting = hello_bytes(&Hello::new("another", client_name(7)));
        peer.send_bytes(&greeting).map_err(Setback::doing("greet"))?;
        let mut answer = Vec::new();
        // The node closes the connection behind its refusal, which may be a reset.
        let _ = peer.channel.read_to_end(&mut answer);
        told +=
            usize::from(answer.windows(cluster.name.len()).any(|window| window == cluster.name.as_bytes()));
    }
    Ok(told)
}
