//! Secrets are never printed, not even by whoever looks for a fault: nothing that holds one shows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::json;
use weir_enrich::PodList;
use weir_plan::{Identity, Pipeline, Secret, Signal};
use weir_resources::{Options, Source};
use weir_testkit::manifests::{from_secret, pipeline, plain, secret, secured, with, with_spec};
use weir_testkit::tls::Authority;

use crate::budget::Budget;
use crate::export::{self, BackendLimits};
use crate::rules::{Memory, Rules};
use crate::settings::{Admin, PortSecurity, PortTls, Proxy, Settings};
use crate::{Engine, StartError};

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

/// What is made of a pipeline when it is started.
fn made(planned: &Pipeline, settings: &Settings) -> String {
    let limits = BackendLimits::new(Budget::for_encoding(1 << 20), 1);
    let backend = export::backend(planned, &limits, Budget::for_encoding(3 << 20), &settings.proxy).unwrap();
    let rules = Rules::compile(planned, Memory { before: None, bytes: 0 }, &|| None, 0).unwrap();
    format!("{backend:?} {rules:?}")
}

fn settings(own: &Identity) -> Settings {
    let tokens = BTreeMap::from([(1, Secret::new(MARK))]);
    let proxy = || Some(Secret::new(format!("http://user:{MARK}@127.0.0.1:9")));
    let Identity { cert_pem, key_pem } = own.clone();
    let tls = Some(PortTls { cert_pem, key_pem, client_ca_pem: None });
    let security = PortSecurity { tls, tokens };
    let (metrics_port, health_port) = (Some(0), Some(0));
    Settings {
        metrics_port,
        health_port,
        grpc_port: Some(0),
        http_port: Some(0),
        admin: Admin { port: Some(0), security: security.clone(), ..Admin::default() },
        proxy: Proxy { https: proxy(), http: proxy(), except: String::new() },
        security,
        ..Settings::default()
    }
}

#[tokio::test]
async fn secrets_are_not_printed() -> Result<(), StartError> {
    let authority = Authority::new();
    let (client, own) = (authority.identity(), authority.identity_of("127.0.0.1"));
    let source = Source { name: "test.yaml".into(), text: manifests(&client) };
    let loaded = weir_resources::load(&[source], &Options::at(SystemTime::now())).unwrap();
    let settings = settings(&own);
    let mut shown = vec![format!("{loaded:?}"), format!("{settings:?}")];
    shown.extend(loaded.plan.pipelines.iter().map(|planned| made(planned, &settings)));
    let engine = Engine::start(&loaded.plan, Arc::new(PodList::default()), settings).await?;
    shown.push(format!("{engine:?}"));
    assert!(shown.len() == 9 && shown.iter().any(|text| text.contains("RecordModifier")), "all of it is there");
    let keys = [&own, &client].map(|identity| identity.key_pem.reveal().lines().nth(1).unwrap().to_owned());
    for text in shown {
        for secret in keys.iter().map(String::as_str).chain([MARK]) {
            let around = |at: usize| text[at.saturating_sub(200)..].chars().take(300).collect::<String>();
            assert_eq!(text.find(secret).map(around), None);
        }
    }
    Ok(())
}
