use axum::{body::Body, http::Request};
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;

/// Answers with what it is asked.
struct Echo;

impl Source for Echo {
    async fn status(&self, query: Query) -> Result<Option<Status>, QueryError> {
        query.after_name()?;
        let mut status = Process::default().status(true, Default::default());
        status.head.pod = Some(query.path());
        Ok((query.limit > 0).then_some(status))
    }

    async fn explain(&self, asked: Asked) -> Option<Explanation> {
        let mut explanation = Explanation::default();
        explanation.head.pod = Some(asked.path());
        Some(explanation)
    }

    async fn verify(&self) -> Option<Verification> {
        None
    }
}

async fn ask(path: &str) -> (StatusCode, String, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = router(Echo).oneshot(request).await.unwrap();
    let policy = answer.headers().get("content-security-policy");
    let policy = policy.map(|it| it.to_str().unwrap().to_owned());
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    (status, policy.unwrap_or_default(), body)
}

#[tokio::test]
async fn query_is_answered_or_refused() {
    for (path, code, part) in [
        ("/status.json", 200, "/status.json?limit=500"),
        (
            "/status.json?name=%2A.b+&namespace=n&limit=3",
            200,
            "/status.json?limit=3&name=%2A.b&namespace=n",
        ),
        ("/status.json?limit=0", 503, "too busy"),
        ("/status.json?limit=x", 400, "limit: it is no number"),
        ("/status.json?after=%20a..b", 400, "after: "),
        (
            "/explain.json?about=WWW.test&namespace=n",
            200,
            "/explain.json?about=www.test.&namespace=n",
        ),
        ("/explain.json", 400, "say what"),
        (
            &format!("/status.json?{}", "x".repeat(4_000)),
            414,
            "too long",
        ),
        ("/verify.json", 503, "too busy"),
        ("/metrics", 404, ""),
    ] {
        let (status, _, body) = ask(path).await;
        assert_eq!(status.as_u16(), code, "{path}: {body}");
        assert!(body.contains(part), "{path}: {body}");
    }
}
