//! Secrets are never printed, not even by whoever looks for a fault: nothing that holds one shows it.

use serde_json::json;
use weir_engine::settings::{Admin, Proxy};
use weir_engine::{Engine, Settings};
use weir_plan::{Identity, Plan, Secret, Signal};
use weir_testkit::manifests::{from_secret, pipeline, plain, secret, secured, with, with_spec};
use weir_testkit::tls::Authority;

use crate::support::{configuration, ingest, no_pods, settings};

/// A part of every secret.
const MARK: &str = "hunter2";

/// Every filter there is, with a secret in each of its values.
const FILTERS: [&str; 8] = [
    "name grep\nregex log ${S}",
    "name record_modifier\nrecord tenant ${S}\nrecord ${S} value",
    "name record_modifier\nremove_key ${S}",
    "name modify\nset a ${S}\nadd ${S} b\nrename ${S} c\nremove_regex ${S}\nmove_to_start ${S}",
    "name modify\nset a b\ncondition key_value_equals ${S} ${S}\ncondition key_value_matches a ${S}",
    "name nest\noperation nest\nwildcard ${S}*\nnest_under ${S}\nadd_prefix ${S}",
    "name nest\noperation lift\nnested_under ${S}",
    "name parser\nkey_name ${S}\nparser json",
];

const OUTPUTS: [&str; 2] = [
    "name http\nhost localhost\nuri /${S}\nhttp_user ${S}\nhttp_passwd ${S}\nheader x-token ${S}\njson_date_key ${S}",
    "name stdout\njson_date_key ${S}",
];

/// Pipelines with secrets wherever there may be one.
fn manifests(client: &Identity) -> String {
    let nowhere = ([127, 0, 0, 1], 9).into();
    let value = || from_secret("secret", "value");
    let mut all = secret("secret", &json!({"value": MARK, "key": client.key_pem.reveal(), "cert": client.cert_pem}));
    let basic = json!({"basic": {"user": value(), "password": value()}});
    let token_url = json!({"value": format!("http://127.0.0.1:9/{MARK}")});
    let oauth2 = json!({"tokenURL": token_url, "clientID": value(), "clientSecret": value(), "params": {"a": MARK}});
    let headers = json!({"headers": [with(value(), json!({"name": "x-token", "prefix": "Bearer"}))]});
    let tls = json!({"cert": from_secret("secret", "cert"), "key": from_secret("secret", "key")});
    let tls = with(tls, json!({"insecureSkipVerify": true}));
    for (name, output) in [
        ("basic", with(plain("http", nowhere), json!({"authentication": basic, "path": format!("/{MARK}")}))),
        ("oauth2", with(secured("grpc", nowhere, &tls), json!({"authentication": {"oauth2": oauth2}}))),
        ("header", with(plain("grpc", nowhere), headers)),
    ] {
        all += &pipeline(Signal::Traces, name, &output);
    }
    for (index, output) in OUTPUTS.iter().enumerate() {
        let filters: Vec<_> = FILTERS.iter().map(|text| json!({"custom": text})).collect();
        let variables = json!([with(value(), json!({"name": "S"}))]);
        let spec = json!({"filters": filters, "variables": variables, "output": {"custom": output}});
        all += &with_spec(Signal::Logs, &format!("custom-{index}"), &spec);
    }
    let http = json!({"host": {"value": "localhost"}, "user": value(), "password": value()});
    all + &with_spec(Signal::Logs, "http", &json!({"output": {"http": http}}))
}

#[tokio::test]
async fn secrets_are_not_printed() {
    let authority = Authority::new();
    let client = authority.identity();
    let loaded = configuration(&manifests(&client));
    assert_eq!(loaded.plan.pipelines.len(), 6);
    let token = || vec![Secret::new(MARK)];
    let own = ingest(&authority, None);
    let keys = [own.key_pem.clone(), client.key_pem.clone()];
    let mut settings = Settings {
        admin: Admin { tokens: token(), ..settings().admin },
        proxy: Proxy {
            https: Some(Secret::new(format!("http://user:{MARK}@127.0.0.1:9"))),
            http: Some(Secret::new(format!("http://user:{MARK}@127.0.0.1:9"))),
            except: String::new(),
        },
        ..settings()
    };
    settings.security.tls = Some(own);
    settings.security.tokens = token();
    let shown = format!("{loaded:?} {settings:?}");
    let engine = Engine::start(&loaded.plan, no_pods(), settings).await.unwrap();
    assert!(loaded.plan != Plan::default() && engine.books().len() == 6);
    for shown in [shown, format!("{engine:?}")] {
        let context = |at: usize| shown[at.saturating_sub(200)..].chars().take(300).collect::<String>();
        assert_eq!(shown.find(MARK).map(context), None);
        for key in &keys {
            let line = key.reveal().lines().nth(1).unwrap();
            assert_eq!(shown.find(line).map(context), None);
        }
        assert!(shown.contains("custom-1"), "it is all there");
    }
}
