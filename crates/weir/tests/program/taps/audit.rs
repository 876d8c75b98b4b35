//! The log says who looks at telemetry.

use tokio::net::TcpSocket;

use super::*;

/// The status of the answer to a client that has another address of this machine.
async fn status_from(client: &str, port: SocketAddr, request: &[u8]) -> u16 {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(client.parse().unwrap(), 0)).unwrap();
    let mut stream = socket.connect(port).await.unwrap();
    stream.write_all(request).await.unwrap();
    in_time("an answer", http::read_answer(&mut stream)).await.unwrap().status
}

fn getting(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// Samples are telemetry, even if there is none as yet.
#[tokio::test]
async fn the_log_says_once_of_each_address_that_it_looks_at_samples() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    for (path, said) in [
        ("/rejected", "somebody looks at samples of what backends refused"),
        ("/dropped", "somebody looks at samples of what was given up"),
    ] {
        for client in ["127.0.0.1", "127.0.0.2", "127.0.0.1", "127.0.0.2", "127.0.0.3"] {
            assert_eq!(status_from(client, admin(&weir), &getting(path)).await, 200);
        }
        let looked = || weir.all_logged(said).iter().map(|line| line["from"].clone()).collect::<Vec<_>>();
        eventually("the last one is logged", async || looked().contains(&json!("127.0.0.3"))).await;
        assert_eq!(looked(), ["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    }
}

/// All who forward a port of a pod have one address: their tokens tell them apart, and are not in the log themselves.
#[tokio::test]
async fn the_log_says_which_token_it_was_and_not_what_it_is() {
    let sink = sink("{}").await;
    let directory = tempfile::TempDir::new().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "of-the-first\n\nof-the-second\n").unwrap();
    let weir = Weir::start(&manifest("shop", sink.grpc), &["--admin-token-file", tokens.to_str().unwrap()]).await;
    for (token, status) in [("of-the-first", 200), ("of-the-second", 200), ("of-the-first", 200), ("of-nobody", 401)] {
        let request = format!("GET /rejected HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
        assert_eq!(status_from("127.0.0.1", admin(&weir), request.as_bytes()).await, status, "{token}");
    }
    let looked = || weir.all_logged("somebody looks at samples of what backends refused");
    eventually("both are logged", async || looked().len() >= 2).await;
    let who: Vec<_> = looked().iter().map(|line| json!([line["from"], line["token"]])).collect();
    assert_eq!(who, [json!(["127.0.0.1", 1]), json!(["127.0.0.1", 3])], "the lines that they are on");
    assert!(!json!(looked()).to_string().contains("of-the"));
}

#[tokio::test]
async fn whoever_has_got_the_line_of_another_token_is_logged_too() {
    let sink = sink("{}").await;
    let directory = tempfile::TempDir::new().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "of-the-first\nof-the-second\n").unwrap();
    let weir = Weir::start(&manifest("shop", sink.grpc), &["--admin-token-file", tokens.to_str().unwrap()]).await;
    let looking = async |token: &str| {
        let request = format!("GET /rejected HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
        status_from("127.0.0.1", admin(&weir), request.as_bytes()).await
    };
    let looked = || {
        let lines = weir.all_logged("somebody looks at samples of what backends refused");
        lines.iter().map(|line| json!([line["from"], line["token"]])).collect::<Vec<_>>()
    };
    assert_eq!(looking("of-the-first").await, 200);
    eventually("the first is logged", async || !looked().is_empty()).await;
    std::fs::write(&tokens, "of-the-second\n").unwrap();
    eventually("the first is not taken any more", async || looking("of-the-first").await == 401).await;
    let before = looked().len();
    assert_eq!(looking("of-the-second").await, 200);
    eventually("the second is logged", async || looked().len() > before).await;
    assert!(looked().iter().all(|line| *line == json!(["127.0.0.1", 1])), "{:?}", looked());
}

/// Everybody knows the numbers of taps. That somebody has opened one is a line of its own.
#[tokio::test]
async fn the_log_says_who_looks_at_a_tap_that_somebody_else_has_opened() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    let [shows, hides] = [false, true].map(|redact| json!({"pipeline": "traces/shop", "redact": redact}));
    let (shows, hides) = (open(port, &shows).await, open(port, &hides).await);
    for client in ["127.0.0.1", "127.0.0.2", "127.0.0.1", "127.0.0.2"] {
        assert_eq!(status_from(client, port, &getting(&format!("/api/taps/{shows}"))).await, 200);
    }
    let rules = json!({"pipeline": "traces/shop", "tap": hides}).to_string();
    let length = format!("content-length: {}\r\n", rules.len());
    let preview = [http::head("POST", "/api/preview", JSON, &length), rules.into_bytes()].concat();
    for client in ["127.0.0.1", "127.0.0.3"] {
        assert_eq!(status_from(client, port, &preview).await, 200);
    }
    let looked = || {
        let lines = weir.all_logged("somebody looks at what a tap has caught");
        lines.iter().map(|line| json!([line["from"], line["tap"], line["redact"]])).collect::<Vec<_>>()
    };
    eventually("the last one is logged", async || looked().iter().any(|line| line[0] == "127.0.0.3")).await;
    assert_eq!(looked(), [json!(["127.0.0.2", shows, false]), json!(["127.0.0.3", hides, true])]);
    // Also of whoever has opened it: rules may show what it hides.
    let tried = || {
        let lines = weir.all_logged("somebody tries rules on telemetry");
        lines.iter().map(|line| json!([line["from"], line["tap"], line["redact"]])).collect::<Vec<_>>()
    };
    eventually("the last one is logged", async || tried().len() == 2).await;
    assert_eq!(tried(), [json!(["127.0.0.1", hides, true]), json!(["127.0.0.3", hides, true])]);
}

#[tokio::test]
async fn the_log_says_who_closes_a_tap() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("shop", sink.grpc), &[]).await;
    let port = admin(&weir);
    let tap = open(port, &json!({"pipeline": "traces/shop"})).await;
    let delete = format!("DELETE /api/taps/{tap} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(status_from("127.0.0.2", port, delete.as_bytes()).await, 204);
    eventually("it is logged", async || weir.logged("a tap is closed").is_some()).await;
    let closed = weir.logged("a tap is closed").unwrap();
    assert_eq!((&closed["tap"], &closed["from"]), (&json!(tap), &json!("127.0.0.2")));
}
