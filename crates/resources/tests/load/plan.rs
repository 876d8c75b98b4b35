//! Documents compile to exactly the plan they describe.

use std::sync::Arc;
use std::time::Duration;

use weir_plan::{
    Backlog, Body, Compression, Endpoint, Filter, Header, Identity, OAuth2, Output, Overflow, Pipeline, Plan,
    Processing, Protocol, Secret, Signal, Tls, Transform,
};
use weir_resources::{Source, load};

use crate::{options, plan};

const CA: &str = "-----BEGIN CERTIFICATE-----
MIIBKTCB3KADAgECAhQvtmsdvzdVEjY/LRdXiDzWhoI2kDAFBgMrZXAwGjEYMBYG
A1UEAwwPd2VpciBleGFtcGxlIENBMCAXDTI1MDEwMTAwMDAwMFoYDzIxMjUwMTAx
MDAwMDAwWjAaMRgwFgYDVQQDDA93ZWlyIGV4YW1wbGUgQ0EwKjAFBgMrZXADIQA5
eOfnJNh62X2KFDcRZVyznhts8tom9HoLR3sCTYnEy6MyMDAwHQYDVR0OBBYEFMJc
3GMs/wpvWWVS8dm08sOlIHNTMA8GA1UdEwEB/wQFMAMBAf8wBQYDK2VwA0EADFk2
nUiD2KwP7j8Uho69Nue5/QlE1LiBrlOaOQcmZ2Vb1FRECFWn002HY/qLs40FGDyl
aePfGkz5s8VEFXU4CQ==
-----END CERTIFICATE-----
";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIHqMIGdoAMCAQICFF5xkTcKdef2cM6iZ44BBEIRJ5drMAUGAytlcDAaMRgwFgYD
VQQDDA93ZWlyIGV4YW1wbGUgQ0EwIBcNMjUwMTAxMDAwMDAwWhgPMjEyNTAxMDEw
MDAwMDBaMA8xDTALBgNVBAMMBHdlaXIwKjAFBgMrZXADIQBZhAaQUZHy1fppQto2
DjamaH8ITDXfJQbCf+gQ3DEy7TAFBgMrZXADQQA/18cFUNKlh1YIr+lAh7poLVno
gKvu/64DgnxUegn1sTVB4uUjhfgdunp9U/Apv8nvqNs/uS/HkjYCtWBcdggE
-----END CERTIFICATE-----
";
const KEY: &str = "-----BEGIN PRIVATE KEY-----
MFECAQEwBQYDK2VwBCIEIEdxYmx82MC4b4GpD+cdgTWI/m4McWX4hduL7W053hYH
gSEAWYQGkFGR8tX6aULaNg42pmh/CEw13yUGwn/oENwxMu0=
-----END PRIVATE KEY-----
";

/// The output of a pipeline with these lines under `spec.output.otlp`.
fn output(otlp: &str) -> Output {
    let mut text =
        "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: TracePipeline\nmetadata: {name: x}\n".to_owned();
    text += "spec:\n  output:\n    otlp:\n";
    for line in otlp.lines() {
        text += &format!("      {line}\n");
    }
    text += "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: n}\n";
    text += "stringData: {both: string, token: \"hunter2\\n\", url: \" https://a/token\\n\"}\n";
    text += "data: {both: ZGF0YQ==, wrapped: \"aHVu\\n dGVyMg==\", endpoint: bG9jYWxob3N0OjQzMTcK}\n";
    plan(&text).pipelines.pop().expect("the text has a pipeline").output
}

fn endpoint(otlp: &str) -> (String, u16, String) {
    let Endpoint { host, port, path } = output(otlp).endpoint;
    (host, port, path)
}

fn backlog(max_bytes: u64, max_age_secs: u64, overflow: Overflow) -> Backlog {
    Backlog { max_bytes, max_age: Duration::from_secs(max_age_secs), overflow }
}

/// The backlog of a pipeline with these annotations, in braces.
fn annotated(annotations: &str) -> Backlog {
    let text = format!(
        "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: TracePipeline\n\
         metadata: {{name: x, annotations: {annotations}}}\nspec: {{output: {{otlp: {{endpoint: {{value: 'b:1'}}}}}}}}\n"
    );
    plan(&text).pipelines.pop().expect("the text has a pipeline").backlog
}

fn header(name: &str, value: &str) -> Header {
    Header { name: name.to_owned(), value: Secret::new(value) }
}

fn secret_ref(key: &str) -> String {
    format!("{{valueFrom: {{secretKeyRef: {{name: s, namespace: n, key: {key}}}}}}}")
}

#[test]
fn the_least_gets_the_defaults() {
    let output = Output {
        body: Body::Otlp,
        protocol: Protocol::Grpc,
        endpoint: Endpoint { host: "127.0.0.1".to_owned(), port: 14317, path: String::new() },
        compression: Compression::Gzip,
        headers: Vec::new(),
        oauth2: None,
        tls: None,
    };
    let expected = Pipeline::new(Signal::Traces, "backend", output);
    assert_eq!(
        plan(include_str!("../../../../examples/quickstart.yaml")),
        Plan { pipelines: vec![expected], ..Plan::default() }
    );
}

#[test]
fn the_full_example_uses_every_field() {
    let grpc = Output {
        body: Body::Otlp,
        protocol: Protocol::Grpc,
        endpoint: Endpoint { host: "traces.example.com".to_owned(), port: 4317, path: String::new() },
        compression: Compression::Zstd,
        headers: vec![
            header("x-tenant", "shop"),
            header("x-api-key", "Key replace-me"),
            header("authorization", "Basic d2VpcjpyZXBsYWNlLW1l"),
        ],
        oauth2: None,
        tls: Some(Tls {
            insecure_skip_verify: false,
            ca_pem: Some(CA.into()),
            identity: Some(Identity { cert_pem: CERTIFICATE.to_owned(), key_pem: Secret::new(KEY) }),
        }),
    };
    let http = Output {
        body: Body::Otlp,
        protocol: Protocol::Http,
        endpoint: Endpoint { host: "traces.example.com".to_owned(), port: 4318, path: "/custom/v1/traces".to_owned() },
        compression: Compression::Gzip,
        headers: Vec::new(),
        oauth2: Some(OAuth2 {
            token_url: "https://auth.example.com/oauth2/token".to_owned(),
            client_id: Secret::new("weir"),
            client_secret: Secret::new("replace-me"),
            scopes: vec!["traces.write".to_owned()],
            params: vec![("audience".to_owned(), Secret::new("traces"))],
            ca_pem: Some(CA.into()),
        }),
        tls: Some(Tls::default()),
    };
    let transform = Transform {
        conditions: vec!["resource.attributes[\"k8s.namespace.name\"] == \"shop\"".to_owned()],
        statements: vec!["set(span.attributes[\"team\"], \"shop\")".to_owned()],
    };
    let filter = Filter { conditions: vec!["IsMatch(span.attributes[\"url.path\"], \"^/healthz\")".to_owned()] };
    let processing = Processing { transforms: vec![transform], filters: vec![filter], ..Processing::default() };
    let backlog = backlog(20 << 30, 72 * 60 * 60, Overflow::Refuse);
    let grpc = Pipeline { backlog, processing, ..Pipeline::new(Signal::Traces, "grpc-backend", grpc) };
    let http = Pipeline::new(Signal::Traces, "http-backend", http);
    let expected = Plan { pipelines: vec![grpc, http], ..Plan::default() };
    let full = plan(include_str!("../../../../examples/full.yaml"));
    assert_eq!(full, expected);
    let of_backend = full.pipelines[0].output.tls.as_ref().and_then(|tls| tls.ca_pem.as_ref());
    let of_token_server = full.pipelines[1].output.oauth2.as_ref().and_then(|oauth2| oauth2.ca_pem.as_ref());
    assert!(Arc::ptr_eq(of_backend.unwrap(), of_token_server.unwrap()), "the same bundle is kept once");
}

#[test]
fn pipelines_keep_the_order_of_their_documents_over_files() {
    let file = |name: &str, pipelines: &[&str]| {
        let document = |pipeline: &&str| {
            format!(
                "---\napiVersion: telemetry.kyma-project.io/v1beta1\nkind: TracePipeline\nmetadata: {{name: {pipeline}}}\n\
                 spec: {{output: {{otlp: {{endpoint: {{value: 'a:1'}}}}}}}}\n"
            )
        };
        Source { name: name.to_owned(), text: pipelines.iter().map(document).collect() }
    };
    let loaded = load(&[file("b.yaml", &["z", "b"]), file("a.yaml", &["y", "a"])], &options()).unwrap();
    let names: Vec<_> = loaded.plan.pipelines.iter().map(|pipeline| pipeline.id.name.as_str()).collect();
    assert_eq!(names, ["z", "b", "y", "a"]);
}

#[test]
fn endpoints_resolve_to_host_port_and_path() {
    let grpc = |value: &str| endpoint(&format!("endpoint: {{value: '{value}'}}"));
    assert_eq!(grpc("backend:4317"), ("backend".to_owned(), 4317, String::new()));
    assert_eq!(grpc("https://backend.example.com:443"), ("backend.example.com".to_owned(), 443, String::new()));
    assert_eq!(grpc("HTTP://backend:1"), ("backend".to_owned(), 1, String::new()));
    assert_eq!(grpc("[2001:db8::1]:4317"), ("2001:db8::1".to_owned(), 4317, String::new()));
    assert_eq!(grpc(" backend:65535\t"), ("backend".to_owned(), 65535, String::new()));

    let http = |value: &str, rest: &str| endpoint(&format!("protocol: http\nendpoint: {{value: '{value}'}}\n{rest}"));
    let at = |port: u16, path: &str| ("b".to_owned(), port, path.to_owned());
    assert_eq!(http("http://b", ""), at(80, "/v1/traces"));
    assert_eq!(http("https://b", ""), at(443, "/v1/traces"));
    assert_eq!(http("https://b:", ""), at(443, "/v1/traces"));
    assert_eq!(http("https://b:4318/", ""), at(4318, "/v1/traces"));
    assert_eq!(http("https://b:4318/api/otlp", ""), at(4318, "/api/otlp/v1/traces"));
    assert_eq!(http("https://b:4318/api/otlp/", ""), at(4318, "/api/otlp/v1/traces"));
    assert_eq!(http("https://b:4318", "path: /custom"), at(4318, "/custom"));
    assert_eq!(http("https://b:4318", "path: custom"), at(4318, "/custom"));
    assert_eq!(http("https://b:4318/api/", "path: /custom/?a=b"), at(4318, "/api/custom/?a=b"));
    assert_eq!(http("https://b:4318", "path: ''"), at(4318, "/v1/traces"));
}

#[test]
fn tls_follows_scheme_and_insecure() {
    let tls = |value: &str, tls: &str| output(&format!("endpoint: {{value: '{value}'}}\ntls: {tls}")).tls;
    let verified = Some(Tls::default());
    assert_eq!(tls("b:1", "{}"), verified);
    assert_eq!(tls("https://b:1", "{}"), verified);
    assert_eq!(tls("http://b:1", "{}"), None);
    assert_eq!(tls("http://b:1", "{insecureSkipVerify: true}"), None);
    assert_eq!(tls("b:1", "{insecure: true}"), None);
    assert_eq!(tls("b:1", "{insecure: false}"), verified);
    assert_eq!(tls("https://b:1", "{insecure: true}"), verified, "https:// is never weakened");
    let unverified = Tls { insecure_skip_verify: true, ..Tls::default() };
    assert_eq!(tls("b:1", "{insecureSkipVerify: true}"), Some(unverified));
    let escaped = CA.trim_end().replace('\n', "\\n");
    let ca = tls("b:1", &format!("{{ca: {{value: '{escaped}'}}}}")).unwrap().ca_pem.unwrap();
    assert_eq!(*ca, *CA.trim_end(), "line breaks written as two characters");
}

#[test]
fn compressions() {
    for (name, expected) in [
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("zstd", Compression::Zstd),
    ] {
        assert_eq!(output(&format!("endpoint: {{value: 'b:1'}}\ncompression: {name}")).compression, expected);
    }
}

#[test]
fn annotations_bound_the_backlog() {
    let default = backlog(10 << 30, 24 * 60 * 60, Overflow::DropOldest);
    assert_eq!(annotated("{example.com/backlog-max-bytes: 1Gi}"), default);
    assert_eq!(annotated("{weir.dev/backlog-max-bytes: 500MB}"), Backlog { max_bytes: 500_000_000, ..default });
    assert_eq!(annotated("{weir.dev/backlog-max-bytes: '1048576'}"), Backlog { max_bytes: 1 << 20, ..default });
    let age = |secs| Backlog { max_age: Duration::from_secs(secs), ..default };
    assert_eq!(annotated("{weir.dev/backlog-max-age: 90m}"), age(90 * 60));
    assert_eq!(annotated("{weir.dev/backlog-max-age: 1s}"), age(1));
    assert_eq!(annotated("{weir.dev/backlog-max-age: 3650d}"), age(3650 * 24 * 60 * 60));
    let overflow = |name: &str| annotated(&format!("{{weir.dev/backlog-overflow: {name}}}")).overflow;
    assert_eq!((overflow("refuse"), overflow("drop_oldest")), (Overflow::Refuse, Overflow::DropOldest));
    let all = "{weir.dev/backlog-max-bytes: 1Ei, weir.dev/backlog-max-age: 2d, weir.dev/backlog-overflow: refuse}";
    assert_eq!(annotated(all), backlog(1 << 60, 2 * 24 * 60 * 60, Overflow::Refuse));
}

#[test]
fn values_come_from_secrets() {
    let headers = |lines: &str| output(&format!("endpoint: {{value: 'b:1'}}\n{lines}")).headers;
    let one = |key: &str| {
        headers(&format!("headers:\n  - name: X-A\n    {}", &secret_ref(key)[1..secret_ref(key).len() - 1]))
    };
    assert_eq!(one("both"), [header("x-a", "string")], "stringData wins over data");
    assert_eq!(one("wrapped"), [header("x-a", "hunter2")], "base64 may be wrapped");
    assert_eq!(one("token"), [header("x-a", "hunter2")], "line breaks around header values are trimmed");

    let basic = |user: &str| {
        let password = secret_ref("token");
        headers(&format!("authentication: {{basic: {{user: {{value: '{user}'}}, password: {password}}}}}"))
    };
    assert_eq!(basic("a"), [header("authorization", "Basic YTpodW50ZXIyCg==")], "passwords are kept as they are");
    assert_eq!(endpoint(&format!("endpoint: {}", secret_ref("endpoint"))).1, 4317);
    let oauth2 = output(&format!(
        "endpoint: {{value: 'b:1'}}\nauthentication:\n  oauth2: {{tokenURL: {}, clientID: {{value: a}}, clientSecret: {}}}",
        secret_ref("url"),
        secret_ref("both"),
    ));
    let oauth2 = oauth2.oauth2.unwrap();
    assert_eq!((oauth2.token_url.as_str(), oauth2.client_secret.reveal()), ("https://a/token", "string"));
}

#[test]
fn older_version_means_the_same() {
    let text = include_str!("../../../../examples/three-pipelines.yaml");
    assert_eq!(plan(&text.replace("v1beta1", "v1alpha1")), plan(text));
}
