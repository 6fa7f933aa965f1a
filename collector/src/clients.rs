//! The pods and namespaces of the clients of DNS servers.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    net::IpAddr,
    num::NonZeroU32,
    sync::Arc,
};

use foldhash::fast::RandomState;
use parking_lot::RwLock;
use runtime::{
    cluster_cidrs::{Networks, Purpose},
    store::{ObjectKey, Scope},
};

/// The most addresses of ended pods that are remembered. Otherwise their late queries would count
/// as those of a pod without rules.
const MOST_ENDED: usize = 1 << 16;

/// A namespace, by a number that holds for the life of the process.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Namespace(NonZeroU32);

/// The kind of a client.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Client {
    /// A pod of this namespace, which has rules by name, unless the pods of all namespaces are
    /// watched.
    PodOf(Namespace),
    /// A pod of any other namespace, which has no rule by name.
    OtherPod,
    /// No known pod: a node, a cache, or any client if pods are not watched.
    NoPod,
}

/// The pods of namespaces with rules by name, or of all namespaces. Clones share them; the default
/// has none.
#[derive(Clone, Debug, Default)]
pub struct Clients(Arc<RwLock<Table>>);

#[derive(Debug, Default)]
struct Table {
    numbers: HashMap<Arc<str>, Namespace>,
    /// The names, by their numbers.
    names: Vec<Arc<str>>,
    by_address: HashMap<IpAddr, Holder, RandomState>,
    addresses: BTreeMap<ObjectKey, Box<[IpAddr]>>,
    /// The oldest first. A new pod may have the address now.
    ended: VecDeque<IpAddr>,
    /// The networks of pods, while pods are watched.
    networks: Option<Arc<Networks>>,
    /// The pods of all namespaces with rules by name are known, so any other pod is of none of
    /// them.
    is_complete: bool,
}

/// The namespace of the pods with an address, or of the last pod that had it.
#[derive(Debug)]
struct Holder {
    namespace: Namespace,
    /// The number of pods with the address: a new one may appear before the end of the last.
    pods: u32,
}

impl Clients {
    pub fn number(&self, namespace: &str) -> Namespace {
        self.0.write().number(namespace)
    }

    /// The number of a namespace, if it has one.
    pub fn known(&self, namespace: &str) -> Option<Namespace> {
        self.0.read().numbers.get(namespace).copied()
    }

    pub fn name(&self, namespace: Namespace) -> Arc<str> {
        let place = usize::try_from(namespace.0.get() - 1).unwrap_or(usize::MAX);
        let table = self.0.read();
        // Every number has a name.
        table.names.get(place).cloned().unwrap_or_default()
    }

    pub fn who(&self, address: IpAddr) -> Client {
        self.0.read().who(address)
    }

    /// Sets the networks of pods while pods are watched; `None` if they are not.
    pub fn watch(&self, networks: Option<Arc<Networks>>) {
        let mut table = self.0.write();
        if networks.is_none() {
            (table.by_address, table.addresses) = Default::default();
            table.ended.clear();
            table.is_complete = false;
        }
        table.networks = networks;
    }

    /// Sets whether the pods of all namespaces with rules by name are known.
    pub fn set_complete(&self, is_complete: bool) {
        if self.0.read().is_complete != is_complete {
            self.0.write().is_complete = is_complete;
        }
    }

    /// Sets the addresses of a pod.
    pub fn set(&self, pod: ObjectKey, addresses: &[IpAddr]) {
        let known = self
            .0
            .read()
            .addresses
            .get(&pod)
            .map(|of| **of == *addresses);
        if known.unwrap_or(addresses.is_empty()) {
            return;
        }
        let mut table = self.0.write();
        let namespace = table.number(&pod.namespace);
        table.end(&pod);
        for address in addresses {
            let holder = table.by_address.entry(*address);
            let holder = holder.or_insert(Holder { namespace, pods: 0 });
            holder.namespace = namespace;
            holder.pods += 1;
        }
        if !addresses.is_empty() {
            table.addresses.insert(pod, addresses.into());
        }
    }

    pub fn end(&self, pod: &ObjectKey) {
        self.0.write().end(pod);
    }

    /// Ends all other pods in the scope.
    pub fn retain(&self, scope: &Scope, pods: &HashSet<ObjectKey>) {
        let mut table = self.0.write();
        let first = ObjectKey::before_all_in(match scope {
            Scope::All => "",
            Scope::Namespace(namespace) => namespace,
        });
        let is_in_scope = |pod: &&ObjectKey| match scope {
            Scope::All => true,
            Scope::Namespace(namespace) => pod.namespace == *namespace,
        };
        let in_scope = table.addresses.range(first..).map(|(pod, _)| pod);
        let in_scope = in_scope.take_while(is_in_scope);
        let gone = in_scope.filter(|pod| !pods.contains(*pod));
        let gone: Vec<_> = gone.cloned().collect();
        for pod in gone {
            table.end(&pod);
        }
    }
}

impl Table {
    fn who(&self, address: IpAddr) -> Client {
        if let Some(holder) = self.by_address.get(&address) {
            // A pod of any namespace may now have the address of an ended pod.
            return match holder.pods {
                0 => Client::NoPod,
                _ => Client::PodOf(holder.namespace),
            };
        }
        let networks = self.networks.as_ref().filter(|_| self.is_complete);
        let purpose = networks.and_then(|networks| networks.purpose(address));
        match purpose {
            Some(Purpose::Pods | Purpose::UserDefinedNetworks) => Client::OtherPod,
            _ => Client::NoPod,
        }
    }

    fn number(&mut self, namespace: &str) -> Namespace {
        if let Some(number) = self.numbers.get(namespace) {
            return *number;
        }
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX - 1);
        let number = Namespace(NonZeroU32::MIN.saturating_add(next));
        let name: Arc<str> = namespace.into();
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        number
    }

    fn end(&mut self, pod: &ObjectKey) {
        let Some(addresses) = self.addresses.remove(pod) else {
            return;
        };
        for address in &addresses {
            if let Some(holder) = self.by_address.get_mut(address) {
                holder.pods = holder.pods.saturating_sub(1);
            }
        }
        self.ended.extend(addresses);
        while self.ended.len() > MOST_ENDED
            && let Some(address) = self.ended.pop_front()
        {
            let is_over = |holder: &Holder| holder.pods == 0;
            if self.by_address.get(&address).is_some_and(is_over) {
                self.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [10, 244, 0, last].into()
    }

    fn pod(text: &str) -> ObjectKey {
        text.parse().unwrap()
    }

    fn watched() -> Clients {
        let clients = Clients::default();
        let pods = (Purpose::Pods, "10.244.0.0/16".parse().unwrap());
        clients.watch(Some(Arc::new(Networks::new([pods]))));
        clients.set_complete(true);
        clients
    }

    #[test]
    fn a_client_is_a_pod_of_its_namespace_another_pod_or_none() {
        let clients = watched();
        clients.set(pod("team/a"), &[ip(1), ip(2)]);
        let team = Client::PodOf(clients.number("team"));
        assert_eq!(clients.who(ip(1)), team);
        assert_eq!(clients.who(ip(2)), team);
        assert_eq!(clients.who(ip(3)), Client::OtherPod);
        assert_eq!(clients.who([192, 0, 2, 1].into()), Client::NoPod);
        assert_ne!(clients.number("other"), clients.number("team"));
        // It may be of a namespace with rules that was not read yet.
        clients.set_complete(false);
        assert_eq!(clients.who(ip(3)), Client::NoPod);
        assert_eq!(clients.who(ip(1)), team);
        clients.watch(None);
        assert_eq!(clients.who(ip(1)), Client::NoPod);
        assert_eq!(Client::PodOf(clients.number("team")), team);
        assert_eq!(&*clients.name(clients.number("other")), "other");
    }

    #[test]
    fn the_address_of_a_pod_that_ended_is_nobodys_until_another_has_it() {
        let clients = watched();
        let [team, other] = ["team", "other"].map(|it| Client::PodOf(clients.number(it)));
        clients.set(pod("team/a"), &[ip(1)]);
        clients.set(pod("team/b"), &[ip(2)]);
        let of_team = Scope::Namespace("team".to_owned());
        clients.retain(&of_team, &[pod("team/b")].into());
        assert_eq!(clients.who(ip(1)), Client::NoPod);
        clients.set(pod("other/a"), &[ip(1)]);
        assert_eq!(clients.who(ip(1)), other);
        assert_eq!(clients.who(ip(2)), team);
        clients.end(&pod("team/b"));
        assert_eq!(clients.who(ip(2)), Client::NoPod);
    }

    #[test]
    fn a_list_of_the_pods_of_all_namespaces_ends_those_that_it_lacks() {
        let clients = watched();
        for (key, last) in [("one/a", 1), ("team/a", 2), ("team/b", 3)] {
            clients.set(pod(key), &[ip(last)]);
        }
        clients.retain(&Scope::All, &[pod("team/b")].into());
        let known: Vec<_> = (1..=3).map(|last| clients.who(ip(last))).collect();
        let team = Client::PodOf(clients.number("team"));
        assert_eq!(known, [Client::NoPod, Client::NoPod, team]);
    }

    #[test]
    fn of_pods_that_ended_so_many_are_known() {
        let clients = watched();
        for number in 0..MOST_ENDED as u32 + 10 {
            let address: IpAddr = (0x0a00_0000 + number).to_be_bytes().into();
            clients.set(pod("team/a"), &[address]);
        }
        assert_eq!(clients.0.read().by_address.len(), MOST_ENDED + 1);
    }
}
