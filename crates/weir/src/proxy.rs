//! The proxies in the environment variables.

use std::env;

use anyhow::anyhow;
use weir_engine::settings::Proxy;
use weir_plan::Secret;

/// `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or their names in lower case; what is empty is not set.
pub(crate) fn of_environment() -> anyhow::Result<Proxy> {
    let url = |name| Ok::<_, anyhow::Error>(variable(name)?.map(Secret::new));
    let (https, http) = (url("HTTPS_PROXY")?, url("HTTP_PROXY")?);
    Ok(Proxy { https, http, except: variable("NO_PROXY")?.unwrap_or_default() })
}

fn variable(name: &str) -> anyhow::Result<Option<String>> {
    let lower_case = name.to_lowercase();
    let set = [name, &lower_case].into_iter().filter_map(env::var_os).find(|value| !value.is_empty());
    // It may hold a password: it is not shown.
    set.map(|value| value.into_string().map_err(|_| anyhow!("the environment variable {name} is not UTF-8 text")))
        .transpose()
}
