//! Prints the responses that a DNS server reports over dnstap.
//!
//! `cargo run -p proto --example read_dnstap -- 127.0.0.1:6000`, with `dnstap tcp://127.0.0.1:6000 full` in CoreDNS's
//! Corefile.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example, with its test"
)]

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

#[cfg(test)]
mod tests {
    use proto::frame_stream::{Control, ControlKind};

    use super::*;

    #[tokio::test]
    async fn a_stream_is_answered_and_each_response_is_taken() {
        let (ours, theirs) = tokio::io::duplex(4096);
        let mut writer = Framed::new(theirs, Codec::default());
        let of_type = |kind| Frame::Control(Control::with_content_type(kind, CONTENT_TYPE.into()));
        let event = pb::Dnstap {
            message: Some(pb::Message {
                r#type: pb::message::Type::ClientResponse.into(),
                response_message: Some(b"answer".to_vec()),
                ..Default::default()
            }),
            ..Default::default()
        };
        let event = Frame::Data(prost::Message::encode_to_vec(&event).into());
        let writing = async {
            writer.send(of_type(ControlKind::Ready)).await.unwrap();
            assert_eq!(
                writer.next().await.unwrap().unwrap(),
                of_type(ControlKind::Accept)
            );
            writer.send(of_type(ControlKind::Start)).await.unwrap();
            for _ in 0..2 {
                writer.send(event.clone()).await.unwrap();
            }
            let stop = Frame::Control(Control::new(ControlKind::Stop));
            writer.send(stop).await.unwrap();
            let finish = Frame::Control(Control::new(ControlKind::Finish));
            assert_eq!(writer.next().await.unwrap().unwrap(), finish);
            drop(writer);
        };
        let mut taken = Vec::new();
        let reading = read(ours, |response| {
            taken.push(response.message.map(<[u8]>::to_vec))
        });
        let (read, ()) = tokio::join!(reading, writing);
        read.unwrap();
        assert_eq!(taken, vec![Some(b"answer".to_vec()); 2]);
    }
}
