//! The instances that share a folder, each with a loopback address of its own.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{IpAddr, Ipv4Addr, UdpSocket},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, task::spawn_blocking, time::sleep};
use tracing::{debug, warn};

use super::Addresses;
use crate::{changes::send_if_changed, store::dir::Lock};

/// How often the folder is read.
const INTERVAL: Duration = Duration::from_millis(500);

/// The number of addresses to try before this instance runs without one.
const TRIALS: usize = 64;

pub(super) struct Folder {
    path: PathBuf,
    /// The locked file makes the address this instance's own.
    own: Option<(Ipv4Addr, Lock)>,
}

impl Folder {
    /// Takes an address in the folder.
    pub(super) fn join(root: &Path, name: &str) -> Self {
        let path = root.join(format!(".{name}-peers"));
        let own = take(&path).unwrap_or_else(|error| {
            warn!(
                path = %path.display(), %error,
                "no loopback address is free: other collectors on this folder count this one's look-ups as client queries"
            );
            None
        });
        Self { path, own }
    }

    pub(super) fn own(&self) -> Option<Ipv4Addr> {
        self.own.as_ref().map(|(address, _)| *address)
    }

    /// Sends the other instances, without end.
    pub(super) async fn watch(self, alive: &watch::Sender<Option<Addresses>>) -> ! {
        let mut said = false;
        let (path, own) = (&self.path, self.own());
        loop {
            let folder = path.clone();
            let looked = spawn_blocking(move || others(&folder, own)).await;
            match looked.unwrap_or_else(|error| Err(io::Error::other(error))) {
                Ok(others) => {
                    said = false;
                    send_if_changed(alive, Some(Arc::new(others)));
                }
                Err(error) if said => {
                    debug!(path = %path.display(), %error, "cannot list the other collectors on this folder")
                }
                Err(error) => {
                    warn!(path = %path.display(), %error, "cannot list the other collectors on this folder");
                    said = true;
                }
            }
            sleep(INTERVAL).await;
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some((address, _)) = &self.own {
            // Another instance removes a remaining file.
            let _ = fs::remove_file(self.path.join(address.to_string()));
        }
    }
}

fn take(path: &Path) -> io::Result<Option<(Ipv4Addr, Lock)>> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for _ in 0..TRIALS {
        let [x, y, z] = [
            fastrand::u8(64..128),
            fastrand::u8(..),
            fastrand::u8(1..255),
        ];
        let address = Ipv4Addr::new(127, x, y, z);
        // Some systems do not have all of 127.0.0.0/8.
        UdpSocket::bind((address, 0))?;
        if let Some(lock) = Lock::try_acquire(&path.join(address.to_string()))? {
            return Ok(Some((address, lock)));
        }
    }
    Ok(None)
}

/// The addresses whose files are locked. Removes the others' files.
fn others(path: &Path, own: Option<Ipv4Addr>) -> io::Result<BTreeSet<IpAddr>> {
    let mut others = BTreeSet::new();
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else {
            continue;
        };
        let address = name.parse::<Ipv4Addr>().ok();
        let Some(address) = address.filter(|it| it.is_loopback() && Some(*it) != own) else {
            continue;
        };
        let path = path.join(name);
        match Lock::try_acquire(&path)? {
            None => {
                others.insert(IpAddr::V4(address));
            }
            Some(_stale) => fs::remove_file(path)?,
        }
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_an_address_and_knows_those_of_the_others_that_live() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".collector-peers");
        let [one, two] = [(); 2].map(|()| Folder::join(dir.path(), "collector"));
        let [first, second] = [&one, &two].map(|it| it.own().unwrap());
        assert_ne!(first, second);
        assert_eq!(others(&path, Some(first)).unwrap(), [second.into()].into());
        assert_eq!(others(&path, Some(second)).unwrap(), [first.into()].into());
        // An instance that ends removes its file; the file of a killed one is removed by others.
        drop(two);
        assert_eq!(others(&path, Some(first)).unwrap(), BTreeSet::new());
        let killed = path.join("127.77.0.1");
        for file in ["127.77.0.1", "10.0.0.1", "README"] {
            fs::write(path.join(file), "").unwrap();
        }
        assert_eq!(others(&path, Some(first)).unwrap(), BTreeSet::new());
        assert!(!killed.exists());
        assert!(path.join("README").exists());
    }

    #[test]
    fn without_a_folder_to_write_to_there_is_no_address() {
        let folder = Folder::join(Path::new("/nonexistent/store"), "collector");
        assert_eq!(folder.own(), None);
    }
}
