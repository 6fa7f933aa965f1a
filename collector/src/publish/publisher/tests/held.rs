use tokio::sync::oneshot::{self, Receiver, error::TryRecvError};

use super::*;
use crate::publish::{HeldAnswer, Settled, guards::Guards};

impl World {
    fn hold(&mut self, asked: &str, ip: &str) -> Receiver<Settled> {
        let (settled, is_settled) = oneshot::channel();
        let answer = HeldAnswer {
            observation: answer(asked, ip, self.now),
            settled,
        };
        self.publisher.hold(answer, at(self.now));
        is_settled
    }
}

/// With an object of `*.example.com`.
fn world() -> World {
    let mut world = World::with(ManageObjects::Always, |config| {
        config.guards = Guards::new(vec!["198.51.100.0/24".parse().unwrap()]);
    });
    world.want(&["*.example.com."]);
    world.settle();
    world
}

#[test]
fn answer_waits_until_the_store_has_its_address() {
    let mut world = world();
    let mut waiting = world.hold("a.example.com.", "192.0.2.1");
    let mut second = world.hold("a.example.com.", "192.0.2.1");
    assert_eq!(waiting.try_recv(), Err(TryRecvError::Empty));
    world.settle();
    assert_eq!(waiting.try_recv(), Ok(Settled::Written));
    assert_eq!(second.try_recv(), Ok(Settled::Written));
    let mut known = world.hold("a.example.com.", "192.0.2.1");
    assert_eq!(known.try_recv(), Ok(Settled::Known));
    // The set of the wildcard has the address already.
    let mut shared = world.hold("b.example.com.", "192.0.2.1");
    assert_eq!(shared.try_recv(), Ok(Settled::Known));
}

#[test]
fn refused_or_unwanted_answer_does_not_wait() {
    let mut world = world();
    let mut refused = world.hold("a.example.com.", "198.51.100.1");
    assert_eq!(refused.try_recv(), Ok(Settled::Known));
    let mut unwanted = world.hold("a.example.org.", "192.0.2.1");
    assert_eq!(unwanted.try_recv(), Ok(Settled::Known));
}

#[test]
fn standby_and_former_leader_release_answers() {
    let mut world = world();
    let mut waiting = world.hold("a.example.com.", "192.0.2.1");
    world.publisher.set_leads(false, at(world.now));
    assert_eq!(waiting.try_recv(), Err(TryRecvError::Closed));
    let mut of_standby = world.hold("b.example.com.", "192.0.2.2");
    assert_eq!(of_standby.try_recv(), Err(TryRecvError::Closed));
}
