//! Requests as a web shop sends them: the same on every run, and as repetitive as telemetry is. Ids are random.

use fastrand::Rng;
use weir_otlp::build::Encoder;

type Make = fn(usize) -> Vec<u8>;

/// Their names, and what makes one of about so many bytes.
pub(crate) const ALL: [(&str, Make); 3] = [("spans", spans), ("logs", logs), ("metrics", metrics)];

const START: u64 = 1_780_000_000_000_000_000;
const SERVICES: [&str; 10] = [
    "frontend",
    "checkout",
    "cart",
    "product-catalog",
    "currency",
    "payment",
    "shipping",
    "recommendation",
    "ad",
    "email",
];
const PRODUCTS: [&str; 10] = [
    "OLJCESPC7Z",
    "66VCHSJNUP",
    "1YMWWN1N4O",
    "L9ECAV7KIM",
    "2ZYFJ3GM2N",
    "0PUK6V6EV0",
    "LS4PSXUNUM",
    "9SIQT8TOJO",
    "6E92ZMYYFZ",
    "HQTGWGPNH4",
];
const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0",
    "python-requests/2.32.5",
];
const STATEMENTS: [&str; 4] = [
    "SELECT id, name, description, picture, price_units, price_nanos, categories FROM products WHERE id = $1",
    "SELECT item_id, quantity FROM cart_items WHERE user_id = $1 ORDER BY added_at",
    "INSERT INTO cart_items (user_id, item_id, quantity, added_at) VALUES ($1, $2, $3, now())",
    "UPDATE orders SET status = $2, tracking_id = $3 WHERE order_id = $1",
];

fn choice<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
    of[random.usize(..of.len())]
}

fn hex(random: &mut Rng, digits: usize) -> String {
    (0..digits).map(|_| random.digit(16)).collect()
}

fn uuid(random: &mut Rng) -> String {
    [8, 4, 4, 4, 12].map(|digits| hex(random, digits)).join("-")
}

fn text(out: &mut Encoder, field: u32, key: &str, value: &str) {
    let attribute = out.open(field, 100);
    out.bytes(1, key.as_bytes());
    let any = out.open(2, 100);
    out.bytes(1, value.as_bytes());
    out.close(any);
    out.close(attribute);
}

fn number(out: &mut Encoder, field: u32, key: &str, value: u64) {
    let attribute = out.open(field, 100);
    out.bytes(1, key.as_bytes());
    let any = out.open(2, 1);
    out.varint(3, value);
    out.close(any);
    out.close(attribute);
}

/// Requests of services in turn, each with what `items` writes, joined as a gateway joins them.
fn request(size: usize, mut items: impl FnMut(&mut Encoder, &mut Rng, &str)) -> Vec<u8> {
    let (mut out, mut random) = (Encoder::default(), Rng::with_seed(7));
    while out.len() < size {
        let service = choice(&mut random, &SERVICES);
        let data = out.open(1, 100_000);
        let resource = out.open(1, 1000);
        text(&mut out, 1, "service.name", service);
        text(&mut out, 1, "service.version", "2.1.3");
        text(&mut out, 1, "service.instance.id", &uuid(&mut random));
        text(&mut out, 1, "telemetry.sdk.name", "opentelemetry");
        text(&mut out, 1, "telemetry.sdk.language", "go");
        text(&mut out, 1, "k8s.namespace.name", "shop");
        text(&mut out, 1, "k8s.deployment.name", service);
        text(&mut out, 1, "k8s.pod.name", &format!("{service}-7c9d8b6f5d-{}", hex(&mut random, 5)));
        text(&mut out, 1, "k8s.pod.ip", &format!("10.244.{}.{}", random.u8(..8), random.u8(..)));
        text(&mut out, 1, "k8s.node.name", &format!("ip-10-250-{}-17.eu-central-1.compute.internal", random.u8(..8)));
        text(&mut out, 1, "cloud.region", "eu-central-1");
        out.close(resource);
        let scope = out.open(2, 100_000);
        let name = out.open(1, 100);
        out.bytes(1, b"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp");
        out.bytes(2, b"0.63.0");
        out.close(name);
        items(&mut out, &mut random, service);
        out.close(scope);
        out.close(data);
    }
    out.into_bytes()
}

fn spans(size: usize) -> Vec<u8> {
    let mut time = START;
    request(size, |out, random, service| {
        for _ in 0..random.usize(5..60) {
            time += random.u64(10_000..9_000_000);
            span(out, random, service, time);
        }
    })
}

fn span(out: &mut Encoder, random: &mut Rng, service: &str, time: u64) {
    let product = choice(random, &PRODUCTS);
    let (kind, name) = match random.u8(..3) {
        0 => (2, "GET /api/products/{id}".to_owned()),
        1 => (3, format!("oteldemo.{service}/Get")),
        _ => (3, "SELECT shop.products".to_owned()),
    };
    let span = out.open(2, 1000);
    out.bytes(1, &random.u128(..).to_be_bytes());
    out.bytes(2, &random.u64(..).to_be_bytes());
    out.bytes(4, &random.u64(..).to_be_bytes());
    out.bytes(5, name.as_bytes());
    out.varint(6, kind);
    out.fixed64(7, time);
    out.fixed64(8, time + random.u64(50_000..400_000_000));
    match (kind, name.starts_with("SELECT")) {
        (2, _) => {
            text(out, 9, "http.request.method", "GET");
            text(out, 9, "http.route", "/api/products/{id}");
            text(out, 9, "url.path", &format!("/api/products/{product}"));
            text(out, 9, "url.scheme", "http");
            text(out, 9, "server.address", "shop.example.com");
            number(out, 9, "server.port", 8080);
            number(out, 9, "http.response.status_code", if random.u8(..) < 8 { 500 } else { 200 });
            number(out, 9, "http.response.body.size", random.u64(200..20_000));
            text(out, 9, "user_agent.original", choice(random, &AGENTS));
            text(
                out,
                9,
                "client.address",
                &format!("{}.{}.{}.{}", random.u8(..), random.u8(..), random.u8(..), random.u8(..)),
            );
            text(out, 9, "session.id", &uuid(random));
        }
        (_, true) => {
            text(out, 9, "db.system.name", "postgresql");
            text(out, 9, "db.namespace", "shop");
            text(out, 9, "db.query.text", choice(random, &STATEMENTS));
            text(out, 9, "server.address", "postgresql.shop.svc.cluster.local");
            number(out, 9, "server.port", 5432);
            number(out, 9, "db.response.returned_rows", random.u64(..30));
        }
        _ => {
            text(out, 9, "rpc.system", "grpc");
            text(out, 9, "rpc.service", &format!("oteldemo.{service}"));
            text(out, 9, "rpc.method", "Get");
            number(out, 9, "rpc.grpc.status_code", 0);
            text(out, 9, "app.product.id", product);
            text(out, 9, "app.user.id", &uuid(random));
            text(out, 9, "network.peer.address", &format!("10.244.{}.{}", random.u8(..8), random.u8(..)));
            number(out, 9, "network.peer.port", random.u64(30_000..60_000));
        }
    }
    out.close(span);
}

fn logs(size: usize) -> Vec<u8> {
    let mut time = START;
    request(size, |out, random, service| {
        for _ in 0..random.usize(5..80) {
            time += random.u64(10_000..9_000_000);
            log(out, random, service, time);
        }
    })
}

fn log(out: &mut Encoder, random: &mut Rng, service: &str, time: u64) {
    let (level, severity) = if random.u8(..) < 20 { ("warn", 13) } else { ("info", 9) };
    let message = match random.u8(..4) {
        0 => format!("GetProduct called for {}", choice(random, &PRODUCTS)),
        1 => format!("payment went through, transaction_id: {}", uuid(random)),
        2 => format!("order confirmation email sent to customer{}@example.com", random.u32(..100_000)),
        _ => format!("request completed in {} ms with status 200", random.u32(1..900)),
    };
    let body = format!(
        r#"{{"timestamp":"2026-05-28T20:26:{:02}.{:09}Z","level":"{level}","logger":"com.example.shop.{service}.Handler","thread":"worker-{}","message":"{message}","http.method":"POST","http.path":"/api/{service}/{}","duration_ms":{},"bytes":{},"trace_id":"{}","span_id":"{}","user_id":"{}","client_ip":"{}.{}.{}.{}","user_agent":"{}"}}"#,
        time / 1_000_000_000 % 60,
        time % 1_000_000_000,
        random.u8(..32),
        choice(random, &PRODUCTS),
        random.u32(1..900),
        random.u32(100..90_000),
        hex(random, 32),
        hex(random, 16),
        uuid(random),
        random.u8(..),
        random.u8(..),
        random.u8(..),
        random.u8(..),
        choice(random, &AGENTS),
    );
    let record = out.open(2, 1000);
    out.fixed64(1, time);
    out.fixed64(11, time + random.u64(1_000_000..900_000_000));
    out.varint(2, severity);
    out.bytes(3, level.as_bytes());
    let value = out.open(5, 1000);
    out.bytes(1, body.as_bytes());
    out.close(value);
    text(out, 6, "log.file.path", &format!("/var/log/pods/shop_{service}-7c9d8b6f5d_4711/{service}/0.log"));
    text(out, 6, "log.iostream", "stdout");
    out.close(record);
}

fn metrics(size: usize) -> Vec<u8> {
    request(size, |out, random, service| {
        for name in ["http.server.request.duration", "rpc.client.duration", "db.client.operation.duration"] {
            let metric = out.open(2, 10_000);
            head(out, name, "Duration of requests, as the one who asked measured it.", "s");
            let data = out.open(9, 10_000);
            (0..random.usize(5..20)).for_each(|_| histogram(out, random, service));
            out.varint(2, 2);
            out.close(data);
            out.close(metric);
        }
        for (name, unit) in
            [("process.cpu.time", "s"), ("http.server.response.body.size", "By"), ("app.orders", "{order}")]
        {
            let metric = out.open(2, 10_000);
            head(out, name, "Total since the process began.", unit);
            let data = out.open(7, 10_000);
            (0..random.usize(5..20)).for_each(|_| sum(out, random));
            out.varint(2, 2);
            out.varint(3, 1);
            out.close(data);
            out.close(metric);
        }
    })
}

fn head(out: &mut Encoder, name: &str, description: &str, unit: &str) {
    out.bytes(1, name.as_bytes());
    out.bytes(2, description.as_bytes());
    out.bytes(3, unit.as_bytes());
}

fn histogram(out: &mut Encoder, random: &mut Rng, service: &str) {
    const BOUNDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
    let counts: Vec<u64> = (0..15u64).map(|bucket| random.u64(..=(20_000 >> bucket))).collect();
    let count: u64 = counts.iter().sum();
    let point = out.open(1, 500);
    times(out);
    out.fixed64(4, count);
    out.fixed64(5, (random.f64() * count as f64).to_bits());
    out.bytes(6, &counts.iter().flat_map(|count| count.to_le_bytes()).collect::<Vec<_>>());
    out.bytes(7, &BOUNDS.iter().flat_map(|bound| bound.to_le_bytes()).collect::<Vec<_>>());
    text(out, 9, "http.request.method", choice(random, &["GET", "POST"]));
    text(out, 9, "http.route", &format!("/api/{service}/{{id}}"));
    number(out, 9, "http.response.status_code", 200);
    text(out, 9, "server.address", &format!("{}.shop.svc.cluster.local", choice(random, &SERVICES)));
    text(out, 9, "network.protocol.version", "1.1");
    out.close(point);
}

fn sum(out: &mut Encoder, random: &mut Rng) {
    let point = out.open(1, 200);
    times(out);
    out.fixed64(4, (random.f64() * 1e6).to_bits());
    text(out, 7, "server.address", &format!("{}.shop.svc.cluster.local", choice(random, &SERVICES)));
    text(out, 7, "app.currency", choice(random, &["EUR", "USD", "CHF", "JPY"]));
    text(out, 7, "state", choice(random, &["user", "system", "idle"]));
    out.close(point);
}

/// All points of an export have the same.
fn times(out: &mut Encoder) {
    out.fixed64(2, START - 3_600_000_000_000);
    out.fixed64(3, START);
}
