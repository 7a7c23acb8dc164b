//! A server that speaks S3 over a directory, for trials on one machine.
//!
//! ```text
//! s3_server DIRECTORY [ADDRESS]        prints the variables for its clients
//! ```
//!
//! Each folder of the directory is a bucket. The keys are `treefold` and `treefold-secret`.

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use std::error::Error;
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("give the directory with the buckets")?;
    let addr = args.next().unwrap_or_else(|| "127.0.0.1:9000".to_owned());
    let files = s3s_fs::FileSystem::new(directory).map_err(|error| format!("{error:?}"))?;
    let mut service = S3ServiceBuilder::new(files);
    service.set_auth(SimpleAuth::from_single("treefold", "treefold-secret"));
    let service = service.build();
    let listener = TcpListener::bind(&addr).await?;
    println!("export AWS_ENDPOINT_URL=http://{} AWS_REGION=us-east-1", listener.local_addr()?);
    println!("export AWS_ACCESS_KEY_ID=treefold AWS_SECRET_ACCESS_KEY=treefold-secret");
    loop {
        let (stream, _) = listener.accept().await?;
        let service = service.clone();
        tokio::spawn(async move {
            // A client that goes away ends its connection, and nothing else.
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
