//! Prints the responses that a DNS server reports over dnstap.
//!
//! `cargo run -p proto --example read_dnstap -- 127.0.0.1:6000`, with `dnstap tcp://127.0.0.1:6000 full` in CoreDNS's
//! Corefile.
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;

use futures_util::{SinkExt, StreamExt};
use prost::Message;
use proto::{
    dnstap::{CONTENT_TYPE, ClientResponse, pb},
    frame_stream::{Action, Codec, Frame, ReaderHandshake},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::codec::Framed;

/// Reads one stream to its end.
async fn read(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    mut take: impl FnMut(ClientResponse<'_>),
) -> Result<(), Box<dyn Error>> {
    let mut frames = Framed::new(stream, Codec::default());
    let mut handshake = ReaderHandshake::new(CONTENT_TYPE);
    while let Some(frame) = frames.next().await {
        let action = match frame? {
            Frame::Control(control) => handshake.on_control(&control)?,
            Frame::Data(event) => {
                handshake.on_data()?;
                ClientResponse::of(&pb::Dnstap::decode(event)?).map(&mut take);
                continue;
            }
        };
        if let Action::Send(answer) | Action::Finish(Some(answer)) = action {
            frames.send(Frame::Control(answer)).await?;
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args()
        .nth(1)
        .ok_or("usage: read_dnstap ADDRESS")?;
    let (stream, _) = tokio::net::TcpListener::bind(address)
        .await?
        .accept()
        .await?;
    read(stream, |response| {
        let length = response.message.unwrap_or_default().len();
        println!("{:?}: {length} bytes", response.client());
    })
    .await
}
