"""The published acceptance scenarios, as the tables in scenarios/ have them."""

from collections.abc import Iterator

import pytest

from certificates import Certificates
from cluster import Cluster
from installation import Installation
from scenarios import Case, Run, cases

_OPERATOR = list(cases("operator.yaml"))
_FLOW = list(cases("flow.yaml"))


@pytest.fixture
def run(installation: Installation, certificates: Certificates, request: pytest.FixtureRequest) -> Iterator[Run]:
    run = Run(installation.cluster, certificates, request.param)
    yield run
    run.clean()
    installation.restore_telemetry()


@pytest.mark.parametrize("run", _OPERATOR, ids=lambda case: case.id, indirect=True)
def test_operator(run: Run) -> None:
    run()


@pytest.mark.nodes
@pytest.mark.parametrize("run", _FLOW, ids=lambda case: case.id, indirect=True)
def test_flow(run: Run) -> None:
    run()


def test_what_the_operator_logged_is_no_surprise(cluster: Cluster, installation: Installation) -> None:
    """After all of the above: what it warns of are faults that were made on purpose."""
    said = [line for line in installation.logs() if line["level"] in ("WARN", "ERROR")]
    assert [line for line in said if "overrides" not in str(line)] == []
