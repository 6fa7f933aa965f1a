//! A server in a network of its own, whose cable can be pulled.

use std::path::Path;

use tests::{network::Network, process::Process, wait::eventually};

use crate::server::{port, serve};

/// The server, and the network that it is in.
pub(crate) struct Apart {
    _process: Process,
    network: Network,
    port: u16,
}

impl Apart {
    /// Starts the server of `NAME.db`; an error is the reason why this process may not make networks.
    pub(crate) async fn start(folder: &Path, name: &str) -> Result<Self, String> {
        let network = Network::new(folder).await?;
        let enter = network.enter();
        let before = enter.iter().skip(1).map(String::as_str);
        let before: Vec<_> = before.chain(["ovsdb-server"]).collect();
        let options = ["--remote=ptcp:0:0.0.0.0".to_owned()];
        let process = serve(Path::new(&enter[0]), &before, folder, name, &options);
        let port = port(&process).await;
        Ok(Self {
            _process: process,
            network,
            port,
        })
    }

    pub(crate) fn remote(&self) -> String {
        format!("tcp:{}:{}", self.network.inside(), self.port)
    }

    /// Pulls the cable, or plugs it in.
    pub(crate) fn plug(&self, on: bool) {
        self.network.plug(on);
    }

    /// Waits until the network works.
    pub(crate) async fn reachable(&self) {
        eventually("the server can be reached", async || {
            let address = (self.network.inside(), self.port);
            let stream = tokio::net::TcpStream::connect(address).await;
            stream.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }
}
