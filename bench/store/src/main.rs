//! Serves a directory by the protocol of S3, for trials on one machine.
//!
//! ```text
//! s3-server DIRECTORY [ADDRESS]        prints the variables of its clients; ends with its standard input
//! ```
//!
//! Each folder of the directory is a bucket. `off`, `on` and `sent` on standard input cut the store off, let it come back, and
//! print the number of bytes that it has sent.

use std::error::Error;
use std::io::BufRead;
use std::path::Path;
use treefold_bench_store::Store;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("give the directory with the buckets")?;
    let store = Store::start(Path::new(&directory), args.next().as_deref().unwrap_or("127.0.0.1:9000"))?;
    for (name, value) in store.environment() {
        println!("export {name}={value}");
    }
    for line in std::io::stdin().lock().lines() {
        match line?.trim() {
            "off" => store.cut_off(),
            "on" => store.come_back(),
            "sent" => println!("{}", store.sent()),
            other => eprintln!("{other:?} is not off, on or sent"),
        }
    }
    Ok(())
}
