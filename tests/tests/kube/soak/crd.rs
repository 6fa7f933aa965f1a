//! The CRD of the objects is deleted under a running ovn-writer, and with it all objects.

use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use proto::api::DnsNameResolver;
use tests::{kube::ApiServer, soak::or_long};

use crate::{
    databases::{PATIENCE, Ruled, make_objects, names},
    uninstall::{is_not_ready, take_crd},
};

/// The last one in the API server's order; no rule uses it.
const UNUSED: &str = "unused.example.com.";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_the_crd_empties_no_set_that_a_rule_uses() {
    let server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let names = names(or_long(60, 3000));
    let unused = [UNUSED.to_owned()];
    let all = [&names[..], &unused].concat();
    make_objects(&server, &namespace, &all).await;
    let database = Ruled::start(&names).await;
    let writer = database.writer(&server.kubeconfig(), &namespace, &[]).await;
    database.expect(&all, true, PATIENCE).await;
    writer.ready().await;
    let objects: Api<DnsNameResolver> = Api::namespaced(server.client().await, &namespace);
    let (params, every) = (DeleteParams::default(), ListParams::default());
    objects.delete_collection(&params, &every).await.unwrap();
    // The unused set is deleted, as its object has been absent for a minute.
    database.expect(&unused, false, PATIENCE).await;
    assert_eq!(database.closings(), [""; 0]);
    take_crd::<DnsNameResolver>(&server).await;
    is_not_ready(&writer).await;
    let closings = database.closings();
    println!(
        "the CRD of {} objects was deleted: {} addresses left their sets",
        names.len(),
        closings.len()
    );
    assert_eq!(closings, [""; 0]);
    database.expect(&names, true, PATIENCE).await;
}
