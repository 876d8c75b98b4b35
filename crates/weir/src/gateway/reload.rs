//! What is new while a gateway runs: another configuration, another cluster, other certificates.

use std::mem;

use weir_engine::{Addresses, Changes, OtlpPorts};
use weir_kubernetes::node::Facts;
use weir_plan::{PipelineId, Plan};
use weir_resources::{Loaded, Report};
use weir_sources::tail::Wanted;

use super::Gateway;
use super::settings::serves_clients;
use crate::explain;
use crate::findings;
use crate::host::{self, Host, News, Trigger};
use crate::security::Security;

impl<H: Host> Gateway<H> {
    pub(super) async fn hear(&mut self, news: News) {
        match news {
            News::Configuration(trigger, loaded) => self.reload(&trigger, *loaded).await,
            News::Unreadable(trigger, error) => {
                self.engine.reload_failed(&error);
                self.refuse(&trigger, &error, None);
            }
            News::Facts(facts) => self.know(facts),
            News::Successor(_) => {}
        }
        // That is no part of a configuration, which may be wrong.
        self.log_agent.read_own(self.host.reads_own());
    }

    /// Takes up what the configuration says now. Where it is wrong, everything goes on as it is.
    async fn reload(&mut self, trigger: &Trigger, loaded: Result<Loaded, Report>) {
        match loaded {
            Ok(mut loaded) => {
                findings::log_news(&loaded.warnings, &mut self.warnings_reported);
                let facts = host::facts_of(&mut loaded);
                let Loaded { plan, log_outputs, .. } = loaded;
                match self.take_up(plan, facts).await {
                    Ok(changes) => {
                        self.configurations.changed(&self.plan, self.host.provenance(), &changes, trigger);
                        let Changes { added, changed, removed, faults } = changes;
                        self.host.runs(&self.plan, log_outputs, &self.engine.inlet());
                        let names =
                            |ids: Vec<PipelineId>| ids.iter().map(PipelineId::to_string).collect::<Vec<_>>().join(", ");
                        // Why they could not be set up is in the log already.
                        let not_set_up = names(faults.into_iter().map(|fault| fault.pipeline).collect());
                        let (added, changed, removed) = (names(added), names(changed), names(removed));
                        tracing::info!(added, changed, removed, not_set_up, "configuration reloaded");
                    }
                    Err(error) => self.refuse(trigger, &explain(&error), None),
                }
            }
            Err(report) => {
                findings::log(&report.diagnostics);
                let error = report.to_string();
                self.engine.reload_failed(&error);
                self.refuse(trigger, &error, Some(report.diagnostics.len()));
            }
        }
    }

    /// Another configuration is not used. Findings are in the log already, and any other error is not.
    fn refuse(&self, trigger: &Trigger, error: &str, findings: Option<usize>) {
        self.configurations.refused(error, trigger);
        let error = findings.is_none().then_some(error);
        tracing::error!(
            error,
            findings,
            advice = "correct it; `weir check` shows what is wrong",
            "the new configuration is not used; the last good one goes on"
        );
    }

    /// Makes the process do what the pipelines of the plan ask for.
    async fn take_up(&mut self, plan: Plan, facts: Facts) -> anyhow::Result<Changes> {
        let (ports, wanted) = match self.begin(&plan).await {
            Ok(begun) => begun,
            Err(error) => {
                self.engine.reload_failed(&explain(&error));
                return Err(error);
            }
        };
        let opens = ports.is_some();
        let taken_up = match ports {
            Some(ports) => self.engine.reload_behind(ports, &plan),
            None => self.engine.reload(&plan),
        };
        if taken_up.is_err() {
            self.log_agent.restore(wanted);
        } else if opens {
            let Addresses { grpc, http, .. } = self.engine.addresses();
            tracing::info!(grpc = grpc.map(display), http = http.map(display), "the OTLP ports are open");
        }
        let changes = taken_up?;
        self.plan = plan;
        self.settling.begin_anew();
        self.know(facts);
        Ok(changes)
    }

    /// What is known of the cluster from now on. The pipelines are the same. This cannot fail: a plan that the engine
    /// has taken up is in use, whatever else there is to do for it.
    fn know(&mut self, Facts { mut facts, state }: Facts) {
        let scrapables = mem::take(&mut facts.scrapables);
        let in_use = self.log_agent.pods_in_use().into_iter().chain(self.metric_agent.pods_in_use());
        self.pods.replace(facts, &in_use.collect());
        self.metric_agent.scrape_for(&self.plan, &scrapables, self.engine.inlet());
        self.runtime_metrics.make_for(&self.plan, state, &self.engine.inlet());
    }

    /// Begins with what no pipeline asked for before, and finds out whether it can. What is read of containers is for
    /// the new pipelines before these are there, so that no line is missed; clients are served after that.
    async fn begin(&mut self, plan: &Plan) -> anyhow::Result<(Option<OtlpPorts>, Wanted)> {
        let is_closed = self.engine.addresses().grpc.is_none();
        let ports = if is_closed && serves_clients(&self.args, plan) {
            let ports = [self.args.grpc_port, self.args.http_port].map(Some);
            Some(OtlpPorts::bind(self.args.listen, ports).await?)
        } else {
            None
        };
        self.log_agent.prepare(plan)?;
        self.metric_agent.prepare(plan)?;
        Ok((ports, self.log_agent.read_for(plan, self.engine.inlet(), &self.pods)?))
    }

    /// Takes up what the certificate, key and token files say now.
    pub(super) fn secure(&self, read: anyhow::Result<Security>) {
        let read = read.map_err(|error| explain(&error));
        let secured = read.and_then(|Security { ingest, admin }| self.engine.secure(&ingest, &admin));
        match secured {
            Ok(are_fewer) => {
                let connections = are_fewer.then_some("they are asked to connect anew: some may be trusted no more");
                tracing::info!(connections, "certificates and tokens are read again");
            }
            Err(error) => {
                tracing::error!(
                    error,
                    advice = "correct the file that is named, or that of the flag that is named",
                    "cannot use the files with certificates and tokens; the old ones stay in use"
                )
            }
        }
    }
}
