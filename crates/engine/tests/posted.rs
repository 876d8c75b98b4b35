//! What clients send to the admin port, counted by the allocator: it takes no more than is paid for it.

use weir_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

#[cfg(test)]
mod admin_port {
    use std::fmt::Write;
    use std::sync::Arc;

    use hyper::Method;
    use weir_engine::admin::{Asked, Page, Route, Shown};
    use weir_engine::settings::Admin;
    use weir_engine::{Engine, Settings, Text};
    use weir_enrich::PodList;
    use weir_plan::Plan;
    use weir_testkit::http;

    use super::ALLOCATOR;

    /// What is taken, and paid for.
    const MOST_POSTED: usize = 64 << 10;
    /// For the connection on both sides, and the answer.
    const BESIDE: usize = 192 << 10;

    /// Says how much it was sent.
    #[derive(Debug)]
    struct Length;

    impl Page for Length {
        fn methods(&self) -> &'static [Method] {
            &[Method::POST]
        }

        fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
            let is_whole = asked.body.iter().all(|byte| *byte == b'x');
            write!(body, "{} {is_whole}", asked.body.len()).ok()?;
            Some(Shown::JSON)
        }
    }

    /// A request with so many chunks of a byte.
    fn post(bytes: usize) -> Vec<u8> {
        let mut request = http::head("POST", "/length", "application/json", "transfer-encoding: chunked\r\n");
        request.extend(b"1\r\nx\r\n".repeat(bytes));
        request.extend(b"0\r\n\r\n");
        request
    }

    #[tokio::test]
    async fn what_comes_in_single_bytes_takes_what_is_paid() {
        let admin = Admin { port: Some(0), routes: vec![Route::new("/length", Length)], ..Admin::default() };
        let (grpc_port, http_port, metrics_port, health_port) = (Some(0), Some(0), Some(0), Some(0));
        let settings = Settings { grpc_port, http_port, metrics_port, health_port, admin, ..Settings::default() };
        let engine = Engine::start(&Plan::default(), Arc::new(PodList::default()), settings).await.unwrap();
        let address = engine.addresses().admin.unwrap();
        let [little, most, more] = [1, MOST_POSTED, MOST_POSTED + 1].map(post);
        // What is made once is there from now on.
        assert_eq!(http::exchange(address, &little).await.text(), "1 true");
        let before = ALLOCATOR.begin();
        let answer = http::exchange(address, &most).await;
        let taken = ALLOCATOR.most() - before;
        assert_eq!((answer.status, answer.text().as_str()), (200, "65536 true"));
        assert!(taken <= MOST_POSTED + BESIDE, "{taken} bytes");
        let refused = http::exchange(address, &more).await;
        assert!(refused.status == 400 && refused.text().contains("at most 65536 bytes"), "{refused:?}");
    }
}
