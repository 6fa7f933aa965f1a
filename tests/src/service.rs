//! A Service of a cluster, as clients see it. A connection goes to one of the pods behind it, and stays there when the
//! pod leaves the Service.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// It runs until it is dropped.
#[derive(Debug)]
pub struct Service {
    address: SocketAddr,
    pods: Arc<Mutex<Vec<SocketAddr>>>,
    _tasks: JoinSet<()>,
}

impl Service {
    /// Starts a Service without pods on a port of 127.0.0.1.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its number");
        let pods = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, Arc::clone(&pods)));
        Self {
            address,
            pods,
            _tasks: tasks,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a pod for new connections.
    pub fn add(&self, pod: SocketAddr) {
        self.pods.lock().expect("no panic under it").push(pod);
    }

    /// Removes a pod for new connections.
    pub fn remove(&self, pod: SocketAddr) {
        let mut pods = self.pods.lock().expect("no panic under it");
        pods.retain(|other| *other != pod);
    }
}

async fn serve(listener: TcpListener, pods: Arc<Mutex<Vec<SocketAddr>>>) {
    let mut connections = JoinSet::new();
    let mut turn = 0_usize;
    while let Ok((client, _)) = listener.accept().await {
        turn = turn.wrapping_add(1);
        let pod = {
            let pods = pods.lock().expect("no panic under it");
            pods.get(turn % pods.len().max(1)).copied()
        };
        connections.spawn(async move {
            // A Service without pods refuses connections; here they are closed at once.
            let Some(pod) = pod else { return };
            // Either side may disconnect.
            let _ended = forward(client, pod).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn forward(mut client: TcpStream, pod: SocketAddr) -> io::Result<()> {
    let mut pod = TcpStream::connect(pod).await?;
    copy_bidirectional(&mut client, &mut pod).await?;
    Ok(())
}
