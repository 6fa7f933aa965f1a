//! The status page: static files, the same for each program. Its script reads `/status.json` and the program's list.

use axum::{Router, routing::get};

use super::answer;

pub(super) fn router() -> Router {
    let file =
        |content_type, text: &'static str| get(move || async move { answer(content_type, text) });
    Router::new()
        .route(
            "/",
            file("text/html; charset=utf-8", include_str!("page/page.html")),
        )
        .route(
            "/page.css",
            file("text/css; charset=utf-8", include_str!("page/page.css")),
        )
        .route(
            "/page.js",
            file(
                "text/javascript; charset=utf-8",
                include_str!("page/page.js"),
            ),
        )
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn each_file_has_its_type_and_the_page_loads_those_files_only() {
        for (path, content_type) in [
            ("/", "text/html; charset=utf-8"),
            ("/page.css", "text/css; charset=utf-8"),
            ("/page.js", "text/javascript; charset=utf-8"),
        ] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let answer = router().oneshot(request).await.unwrap();
            assert_eq!(answer.headers()["content-type"], content_type);
            let policy = answer.headers()["content-security-policy"]
                .to_str()
                .unwrap();
            assert!(!policy.contains("unsafe"), "{policy}");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let text = String::from_utf8(body.to_vec()).unwrap();
            assert!(
                !text.contains("innerHTML") && !text.contains(" style="),
                "{text}"
            );
            let html = path == "/";
            assert_eq!(
                html,
                text.contains("src=\"/page.js\"") && text.contains("href=\"/page.css\"")
            );
        }
    }
}
