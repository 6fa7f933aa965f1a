//! A Service of a cluster, as those see it who dial its address: connections go to one of the pods behind it, and stay there
//! when the pod is no longer behind it.

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
    /// Starts one with no pods on a port of 127.0.0.1.
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

    /// Where it is dialled.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it sends connections there, too.
    pub fn add(&self, pod: SocketAddr) {
        self.pods.lock().expect("no panic under it").push(pod);
    }

    /// From now on it sends none there.
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
            // Who dials a Service without pods is refused; here it is closed at once.
            let Some(pod) = pod else { return };
            // Either side may break off.
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
