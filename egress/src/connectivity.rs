//! `egress test`: a pod that connects to names, in a namespace of its own.

pub(crate) mod connect;
mod destination;
mod objects;

use std::{pin::pin, time::Duration};

use anyhow::bail;
use clap::Args;
use k8s_openapi::api::core::v1 as core;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams, PropagationPolicy},
};
use proto::api::EgressFirewall;
use runtime::{UsageError, args::parse_duration, cluster::in_words};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use self::{connect::Connected, destination::Destination};
use crate::{
    check::{Finding, Report, Topic},
    objects::Pod,
    output::{self, Format},
    targets::{Access, AccessArgs},
};

/// The pause between two looks at an object.
const INTERVAL: Duration = Duration::from_millis(250);

/// A connection that took longer was made by the second packet, which TCP sends after a second.
const FIRST_PACKET: Duration = Duration::from_millis(900);

/// Tests packets: a pod connects to an allowed name, to a name under a wildcard, and to a name that no rule allows.
///
/// The test creates a namespace with an EgressFirewall and a pod of the product's image, and deletes it at its end, also after Ctrl-C. You
/// need the rights to create namespaces, EgressFirewalls and pods.
///
/// Exit status 0: each connection was as it should be. 1: one was not. 2: the test could not be made.
#[derive(Args, Clone, Debug)]
pub struct TestArgs {
    /// A name that the EgressFirewall allows.
    #[arg(long, value_name = "NAME[:PORT]", default_value = "kubernetes.io")]
    pub allowed: Destination,

    /// A name under a wildcard that the EgressFirewall allows.
    #[arg(long, value_name = "NAME[:PORT]", default_value = "registry.k8s.io")]
    pub under_wildcard: Destination,

    /// A name that it does not allow.
    #[arg(long, value_name = "NAME[:PORT]", default_value = "example.com")]
    pub denied: Destination,

    /// The image of the pod. Default: that of the collectors.
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,

    /// How long the test may take.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_duration)]
    pub timeout: Duration,

    /// The format of the output.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Format,

    #[command(flatten)]
    pub cluster: AccessArgs,
}

/// Makes the test, and deletes its namespace. Returns whether each connection was as it should be.
///
/// # Errors
/// [`UsageError`]: the test could not be made.
pub(crate) async fn run(args: TestArgs) -> anyhow::Result<bool> {
    let access = Access::new(&args.cluster).await?;
    let image = match &args.image {
        Some(image) => image.clone(),
        None => image_of_collectors(&access).await?,
    };
    let firewall = objects::firewall(&args.allowed, &args.under_wildcard)?;
    // From now on Ctrl-C ends the test, and the namespace is deleted.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let kind = ApiResource::erase::<core::Namespace>(&());
    let namespaces: Api<DynamicObject> = Api::all_with(access.client.clone(), &kind);
    let created = namespaces
        .create(&PostParams::default(), &objects::namespace()?)
        .await;
    let namespace = created.map_err(|error| cannot("create a namespace", &error))?;
    let namespace = namespace.name_any();
    let tested = {
        let mut testing = pin!(test(&access, &args, &namespace, &firewall, &image));
        tokio::select! {
            tested = &mut testing => tested,
            _ = interrupts.recv() => Err(UsageError("interrupted".to_owned()).into()),
        }
    };
    let in_background = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    if let Err(error) = namespaces.delete(&namespace, &in_background).await {
        let error = in_words(&error);
        bail!("namespace {namespace} is left: {error}; try: kubectl delete namespace {namespace}");
    }
    let report = Report::new(tested?);
    output::line(&args.output.render(&report, Report::text)?)?;
    Ok(report.outcome()?)
}

/// The findings about the connections of a pod in the namespace.
async fn test(
    access: &Access,
    args: &TestArgs,
    namespace: &str,
    firewall: &EgressFirewall,
    image: &str,
) -> anyhow::Result<Vec<Finding>> {
    let until = Instant::now() + args.timeout;
    let firewalls: Api<EgressFirewall> = Api::namespaced(access.client.clone(), namespace);
    let created = firewalls.create(&PostParams::default(), firewall).await;
    created.map_err(|error| cannot("create an EgressFirewall", &error))?;
    // Before, all packets of the namespace pass.
    let is_applied = async || {
        let found = firewalls.get(&firewall.name_any()).await?;
        let status = found.status.map(|it| it.status).unwrap_or_default();
        Ok(status.contains("applied").then_some(()).ok_or(status))
    };
    let what = "ovn-kubernetes to apply the EgressFirewall";
    wait(until, what, is_applied).await?;

    let kind = ApiResource::erase::<core::Pod>(&());
    let pods: Api<DynamicObject> = Api::namespaced_with(access.client.clone(), namespace, &kind);
    let destinations = [&args.allowed, &args.under_wildcard, &args.denied];
    let pod = objects::pod(image, &destinations)?;
    let created = pods.create(&PostParams::default(), &pod).await;
    created.map_err(|error| cannot("create a pod", &error))?;
    let pods: Api<Pod> = Api::namespaced(access.client.clone(), namespace);
    let has_ended = async || Ok(objects::message(&pods.get(&pod.name_any()).await?));
    let message = wait(until, "the pod", has_ended).await?;
    let connected: Vec<Connected> = serde_json::from_str(&message)
        .map_err(|_| UsageError(format!("the pod failed: {message}")))?;
    Ok(findings(args, &connected))
}

fn findings(args: &TestArgs, connected: &[Connected]) -> Vec<Finding> {
    let of = |destination: &Destination| {
        let mut all = connected.iter();
        all.find(|it| it.destination == destination.to_string())
    };
    let mut topic = Topic::new("Allowed name");
    expect_connection(&mut topic, &args.allowed, of(&args.allowed));
    let mut wildcard = Topic::new("Name under a wildcard");
    expect_connection(
        &mut wildcard,
        &args.under_wildcard,
        of(&args.under_wildcard),
    );
    let mut denied = Topic::new("Denied name");
    let destination = &args.denied;
    match of(destination) {
        Some(it) if it.address.is_none() => denied.unknown(
            format!("{destination} has no address for the pod: {}", it.words()),
            "name another one by --denied",
        ),
        Some(it) if it.error.is_none() => denied.fault(
            format!("{destination} was reached: {}", it.words()),
            "see that ovn-kubernetes enforces EgressFirewalls (--enable-egress-firewall)",
        ),
        Some(it) => denied.ok(format!("{destination} was not reached: {}", it.words())),
        None => denied.unknown(format!("the pod did not try {destination}"), "see its log"),
    }
    let topics = [topic, wildcard, denied];
    topics.into_iter().flat_map(Vec::from).collect()
}

fn expect_connection(topic: &mut Topic, destination: &Destination, connected: Option<&Connected>) {
    let Some(connected) = connected else {
        return topic.unknown(format!("the pod did not try {destination}"), "see its log");
    };
    let words = connected.words();
    if connected.address.is_none() {
        return topic.fault(
            format!("{destination} has no address for the pod: {words}"),
            "see that the name exists, and that the pod reaches the cluster's DNS",
        );
    }
    let remedy = format!("egress explain {}", destination.name());
    match &connected.error {
        Some(_) => topic.fault(format!("{destination} was not reached: {words}"), remedy),
        None if connected.took() < FIRST_PACKET => {
            topic.ok(format!(
                "{destination} was reached by the first packet: {words}"
            ));
        }
        None => topic.ok(format!(
            "{destination} was reached by a repeated packet: {words}"
        )),
    }
}

/// Waits for an answer; the error of a look is why there is none yet.
async fn wait<T>(
    until: Instant,
    what: &str,
    look: impl AsyncFn() -> Result<Result<T, String>, kube::Error>,
) -> anyhow::Result<T> {
    loop {
        let why = match look()
            .await
            .map_err(|error| cannot("read an object", &error))?
        {
            Ok(found) => return Ok(found),
            Err(why) => why,
        };
        if Instant::now() >= until {
            let why = if why.is_empty() { "no status" } else { &why };
            let error = format!("no time is left to wait for {what}: {why}; --timeout allows more");
            return Err(UsageError(error).into());
        }
        sleep(INTERVAL).await;
    }
}

async fn image_of_collectors(access: &Access) -> Result<String, UsageError> {
    let pods = access.chart_pods().await?.into_iter();
    let containers = pods.flat_map(|pod| pod.spec.containers);
    let mut images = containers.map(|container| container.image);
    let image = images.find(|image| !image.is_empty());
    image.ok_or_else(|| UsageError("the pods of the chart have no image: give --image".to_owned()))
}

fn cannot(what: &str, error: &kube::Error) -> UsageError {
    UsageError(format!("cannot {what}: {}", in_words(error)))
}
