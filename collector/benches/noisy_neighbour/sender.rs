//! The stream of the DNS server: one client queries random labels, and others get new addresses.

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr},
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use proto::dnstap::CONTENT_TYPE;
use tests::dnstap::{Control, answer, control, data, event_for};

use super::store::Sent;

/// The interval of writes, each with all frames that are due.
const TICK: Duration = Duration::from_millis(1);

/// Random labels a second.
pub(crate) const RANDOM_LABELS: f64 = 10_000.0;

/// The client that queries them.
pub(crate) const ATTACKER: Ipv4Addr = Ipv4Addr::new(10, 244, 9, 9);

/// Without look-ups an address leaves by its TTL, so no object grows.
const TTL: u32 = 5;

/// New addresses a second of the same kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Honest {
    pub(crate) a_second: f64,
    /// The number of wildcards, used in turns: `*.zone0.example.com` and so on.
    pub(crate) zones: usize,
    /// The parent of names under it; `{}` is the number of the zone.
    pub(crate) parent: &'static str,
}

/// An open stream.
pub(crate) struct Sender {
    stream: UnixStream,
    sent: Sent,
    honest: [Honest; 2],
    labels: u64,
    addresses: u32,
    template: Vec<u8>,
    digits: usize,
}

/// An event that is due at a rate.
struct Pace {
    begins: Instant,
    a_second: f64,
    done: u64,
}

impl Pace {
    fn new(a_second: f64) -> Self {
        Self {
            begins: Instant::now(),
            a_second,
            done: 0,
        }
    }

    /// The number of events that became due since the last call.
    fn due(&mut self) -> u64 {
        let due = (self.begins.elapsed().as_secs_f64() * self.a_second) as u64;
        due - std::mem::replace(&mut self.done, due)
    }
}

impl Sender {
    /// Connects and performs the handshake.
    pub(crate) fn open(socket: &Path, parent: &str, sent: Sent, honest: [Honest; 2]) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        let ready = control(Control::Ready, Some(CONTENT_TYPE));
        stream.write_all(&ready).unwrap();
        let mut accept = vec![0; ready.len()];
        stream.read_exact(&mut accept).unwrap();
        let start = control(Control::Start, Some(CONTENT_TYPE));
        stream.write_all(&start).unwrap();
        let random = [Ipv4Addr::new(11, 0, 0, 1).into()];
        let template = answer(&format!("x00000000.{parent}"), &random, 3600);
        let template = data(&event_for(Some(ATTACKER), template));
        let digits = template.windows(8).position(|part| part == b"00000000");
        Self {
            stream,
            sent,
            honest,
            labels: 0,
            addresses: 0,
            digits: digits.unwrap(),
            template,
        }
    }

    /// Sends for this time, with the random labels or without.
    pub(crate) fn send(&mut self, lasts: Duration, is_attacked: bool) {
        let began = Instant::now();
        let mut labels = Pace::new(if is_attacked { RANDOM_LABELS } else { 0.0 });
        let mut paces = self.honest.map(|honest| Pace::new(honest.a_second));
        while began.elapsed() < lasts {
            let mut frames = Vec::new();
            for _ in 0..labels.due() {
                self.labels += 1;
                let label = format!("{:08}", self.labels);
                let digits = &mut self.template[self.digits..self.digits + 8];
                digits.copy_from_slice(label.as_bytes());
                frames.extend_from_slice(&self.template);
            }
            let mut new = Vec::new();
            for (what, pace) in paces.iter_mut().enumerate() {
                for _ in 0..pace.due() {
                    let (address, frame) = self.new_address(what);
                    // Amid the random labels of the same time.
                    frames.extend(frame);
                    new.push((address.to_string(), what));
                }
            }
            let now = Instant::now();
            let new = new
                .into_iter()
                .map(|(address, what)| (address, (what, now)));
            self.sent.lock().unwrap().extend(new);
            self.stream.write_all(&frames).unwrap();
            thread::sleep(TICK);
        }
    }

    /// A pod gets another address of a name that it uses.
    fn new_address(&mut self, what: usize) -> (IpAddr, Vec<u8>) {
        let number = self.addresses;
        self.addresses += 1;
        let address = IpAddr::from((0x1400_0000 + number).to_be_bytes());
        let honest = self.honest[what];
        let zone = number as usize % honest.zones;
        let pod = u8::try_from(number % 100).unwrap();
        let parent = honest.parent.replace("{}", &zone.to_string());
        let message = answer(&format!("pod{}.{parent}", pod % 10), &[address], TTL);
        let client = Ipv4Addr::new(10, 244, 1, pod);
        (address, data(&event_for(Some(client), message)))
    }
}
