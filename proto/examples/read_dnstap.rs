//! Prints the responses that a DNS server sends to its clients, as its dnstap tells of them.
//!
//! `cargo run -p proto --example read_dnstap -- 127.0.0.1:6000`, with `dnstap tcp://127.0.0.1:6000 full` in CoreDNS's Corefile.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example, with its test"
)]

use std::error::Error;

use bytes::{Buf, BytesMut};
use prost::Message;
use proto::{
    dnstap::{CONTENT_TYPE, ClientResponse, pb},
    frame_stream::{Action, Limits, Step, StreamReader},
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Reads one stream to its end.
async fn read(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    mut take: impl FnMut(ClientResponse<'_>),
) -> Result<(), Box<dyn Error>> {
    let mut reader = StreamReader::new(CONTENT_TYPE, Limits::default());
    let mut buffer = BytesMut::new();
    while stream.read_buf(&mut buffer).await? > 0 {
        loop {
            let consumed = match reader.step(&buffer)? {
                Step::Incomplete { .. } => break,
                Step::Data { payload, consumed } => {
                    ClientResponse::of(&pb::Dnstap::decode(payload)?).map(&mut take);
                    consumed
                }
                Step::Control { action, consumed } => {
                    if let Action::Send(answer) | Action::Finish(Some(answer)) = action {
                        let mut bytes = BytesMut::new();
                        answer.encode(&mut bytes);
                        stream.write_all(&bytes).await?;
                    }
                    consumed
                }
            };
            buffer.advance(consumed);
        }
    }
    reader.end(&buffer)?;
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
    use proto::frame_stream::{Control, ControlKind, encode_data};

    use super::*;

    #[tokio::test]
    async fn a_stream_is_answered_and_each_response_is_taken() {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let event = pb::Dnstap {
            message: Some(pb::Message {
                r#type: pb::message::Type::ClientResponse.into(),
                response_message: Some(b"answer".to_vec()),
                ..Default::default()
            }),
            ..Default::default()
        };
        let of_type = |kind| Control::with_content_type(kind, CONTENT_TYPE.into());
        let (mut sent, mut expected) = (BytesMut::new(), BytesMut::new());
        of_type(ControlKind::Ready).encode(&mut sent);
        of_type(ControlKind::Start).encode(&mut sent);
        for _ in 0..2 {
            encode_data(&event.encode_to_vec(), &mut sent);
        }
        Control::new(ControlKind::Stop).encode(&mut sent);
        of_type(ControlKind::Accept).encode(&mut expected);
        Control::new(ControlKind::Finish).encode(&mut expected);
        theirs.write_all(&sent).await.unwrap();
        theirs.shutdown().await.unwrap();
        let mut taken = Vec::new();
        let take = |response: ClientResponse<'_>| taken.push(response.message.map(<[u8]>::to_vec));
        read(ours, take).await.unwrap();
        assert_eq!(taken, vec![Some(b"answer".to_vec()); 2]);
        let mut answers = Vec::new();
        theirs.read_to_end(&mut answers).await.unwrap();
        assert_eq!(answers, expected);
    }
}
