//! A server in a network namespace of its own, whose link can be cut.

use std::path::Path;

use tests::{network::Network, ovn, process::Process, wait::eventually};

use crate::server::{port, serve};

pub(crate) struct Apart {
    _process: Process,
    network: Network,
    port: u16,
}

impl Apart {
    /// Starts the server of `NAME.db`; an error is the reason why this process may not create networks.
    pub(crate) async fn start(folder: &Path, name: &str) -> Result<Self, String> {
        let network = Network::new(folder).await?;
        let enter = network.enter();
        let before = enter.iter().skip(1).map(String::as_str);
        let server = ovn::program("ovsdb-server").display().to_string();
        let before: Vec<_> = before.chain([server.as_str()]).collect();
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

    /// Cuts the link, or restores it.
    pub(crate) fn plug(&self, on: bool) {
        self.network.plug(on);
    }

    pub(crate) async fn reachable(&self) {
        eventually("the server can be reached", async || {
            let address = (self.network.inside(), self.port);
            let stream = tokio::net::TcpStream::connect(address).await;
            stream.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }
}
