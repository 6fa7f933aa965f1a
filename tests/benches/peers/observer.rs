//! What observes names and keeps their sets: this project, the model, or nothing.

use std::{
    env,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use kube::{Api, api::DeleteParams};
use proto::api::EgressFirewall;
use tests::{
    cpu_time,
    kube::ApiServer,
    northbound::remote,
    process::{Process, memory},
    programs::Program,
    workdir::Workdir,
};

use crate::{api_link::ApiLink, periodic_resolver};

pub(crate) enum Observer {
    Nothing,
    Model { process: Process, args: Vec<String> },
    Project(Box<Project>),
}

/// The collector and the ovn-writer, with an API server between them.
pub(crate) struct Project {
    collector: Program,
    ovn_writer: Program,
    link: ApiLink,
    namespace: String,
}

/// What an observer took so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) cpu: Duration,
    pub(crate) api_writes: f64,
    pub(crate) api_bytes: u64,
}

impl Observer {
    pub(crate) fn model(workdir: &Workdir, dns: SocketAddr, names: &[String]) -> Self {
        let folder = workdir.path().display().to_string();
        let words = [
            periodic_resolver::WORD.to_owned(),
            folder,
            dns.to_string(),
            names.join(","),
        ];
        Self::Model {
            process: start_model(workdir, &words),
            args: words.to_vec(),
        }
    }

    pub(crate) async fn project(
        workdir: &Workdir,
        dns: &[SocketAddr],
        rules: &[String],
        server: &ApiServer,
        delay: Duration,
    ) -> Self {
        let namespace = server.namespace().await;
        let allowed: Vec<&str> = rules.iter().map(String::as_str).collect();
        server.allow(&namespace, &allowed).await;
        let servers: Vec<IpAddr> = dns.iter().map(SocketAddr::ip).collect();
        server.make_dns_service(&namespace, &servers).await;
        let link = ApiLink::start(server, delay).await;
        let kubeconfig = link.kubeconfig(server, workdir.path()).await;
        let start = async |name, args: &[String]| {
            let common = [
                "--store=kube".to_owned(),
                format!("--objects-namespace={namespace}"),
            ];
            let environment = vec![("KUBECONFIG", kubeconfig.display().to_string())];
            let args = [&common, args].concat();
            Program::start_with(workdir.path(), name, args, environment).await
        };
        let socket = workdir.join("dnstap.sock");
        let of_collector = [
            format!("--listen=unix://{}", socket.display()),
            "--resolver=kube".to_owned(),
            format!("--resolver-service={namespace}/dns"),
            "--manage-objects=always".to_owned(),
        ];
        let collector = start("collector", &of_collector).await;
        let of_writer = [format!("--nb={}", remote(workdir.path()))];
        let ovn_writer = start("ovn-writer", &of_writer).await;
        Self::Project(Box::new(Project {
            collector,
            ovn_writer,
            link,
            namespace,
        }))
    }

    /// Waits until the collector has flush probes back from so many servers.
    pub(crate) async fn is_streaming(&self, servers: usize) {
        if let Self::Project(project) = self {
            let streaming = ["state=\"streaming\""];
            let collector = &project.collector;
            collector
                .counts("egress_collector_dns_blocks", &streaming, servers as f64)
                .await;
        }
    }

    /// Kills the program that observes names, and starts it again at once.
    pub(crate) async fn restart(&mut self, workdir: &Workdir) {
        match self {
            Self::Nothing => {}
            Self::Model { process, args } => {
                process.kill();
                *process = start_model(workdir, args);
            }
            Self::Project(project) => project.collector.restart().await,
        }
    }

    pub(crate) async fn cost(&mut self) -> Cost {
        let cpu = self.pids().into_iter().map(cpu_time::of_process).sum();
        let Self::Project(project) = self else {
            return Cost {
                cpu,
                ..Cost::default()
            };
        };
        let labels = ["operation=\"replace_status\"", "outcome=\"done\""];
        let admin = project.collector.admin();
        let written = admin.metric("egress_store_writes_total", &labels).await;
        Cost {
            cpu,
            // A series is there after the first write.
            api_writes: written.unwrap_or_default(),
            api_bytes: project.link.bytes(),
        }
    }

    /// In bytes.
    pub(crate) fn memory(&mut self) -> u64 {
        self.pids().into_iter().map(|pid| memory(pid)[0]).sum()
    }

    fn pids(&mut self) -> Vec<u32> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Model { process, .. } => vec![process.pid()],
            Self::Project(project) => {
                let Project {
                    collector,
                    ovn_writer,
                    ..
                } = &mut **project;
                [collector, ovn_writer]
                    .map(|program| program.process().pid())
                    .to_vec()
            }
        }
    }

    /// Ends it, and deletes its EgressFirewall, which the next collector would read.
    pub(crate) async fn end(self, server: &ApiServer) {
        let Self::Project(project) = self else {
            return;
        };
        let namespace = project.namespace.clone();
        drop(project);
        let firewalls: Api<EgressFirewall> = Api::namespaced(server.client().await, &namespace);
        let deleted = firewalls.delete("default", &DeleteParams::default()).await;
        deleted.unwrap();
    }
}

fn start_model(workdir: &Workdir, args: &[String]) -> Process {
    let program = env::current_exe().unwrap();
    Process::start(workdir.path(), periodic_resolver::WORD, &program, args, &[])
}
