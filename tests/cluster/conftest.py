"""A cluster for all tests of a run."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from certificates import Certificates
from cluster import Cluster, pack
from installation import Installation


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """WEIR_CLUSTER_RUNNING names the state directory of one that runs and is left running: for work on tests."""
    if running := os.environ.get("WEIR_CLUSTER_RUNNING"):
        yield Cluster(Path(running))
        return
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.run("up", "2")
        yield cluster
    finally:
        cluster.run("down")


@pytest.fixture(scope="session")
def weir_image(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of an image of the binary under test, which every node has."""
    name = "weir.test/weir:1"
    cluster.run("load-image", pack(tmp_path_factory.mktemp("image") / "weir.tar", name))
    return name


@pytest.fixture(scope="session")
def installation(cluster: Cluster, weir_image: str) -> Installation:
    """Weir, installed as a platform team does it."""
    installation = Installation(cluster, weir_image)
    installation.install()
    return installation


@pytest.fixture(scope="session")
def certificates(cluster: Cluster) -> Certificates:
    return Certificates([cluster.address])
