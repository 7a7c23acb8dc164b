//! The `treefold` command; see the library of this crate.

fn main() -> std::process::ExitCode {
    treefold_cli::treefold()
}
