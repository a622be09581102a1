"""What a group takes of a Ray cluster, and which nodes may take part; no Ray is needed for
either."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rnncheck.bench.cluster import NodeShare, check_node, node_share
from rnncheck.bench.host import Node
from rnncheck.errors import UserError
from rnncheck.results.environment import current_environment

HEAD, SMALL, LARGE = {"memory": 1.0}, {"CPU": 4.0}, {"CPU": 9.0}
GPUS = {"CPU": 16.0, "GPU": 2.0}


@pytest.fixture(autouse=True)
def all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


@pytest.mark.parametrize(
    ("wanted", "nodes", "device", "room"),
    [
        ("cpu", [HEAD, SMALL, LARGE], NodeShare(4), 3),  # the same number of threads on every node
        ("auto", [SMALL], NodeShare(4), 1),
        ("auto", [SMALL, GPUS], NodeShare(1, 1), 2),
        ("cuda", [SMALL, GPUS, GPUS], NodeShare(1, 1), 4),
        ("cpu", [GPUS], NodeShare(16), 1),
    ],
)
def test_one_device_each(
    wanted: str, nodes: list[dict[str, float]], device: NodeShare, room: int
) -> None:
    assert node_share(wanted, nodes) == device
    assert sum(device.fits(node) for node in nodes) == room


def test_a_worker_takes_the_cores_that_it_computes_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert node_share("cpu", [SMALL]) == NodeShare(2)
    assert NodeShare(2).fits(SMALL) == 2
    assert node_share("cpu", [SMALL], threads=3) == NodeShare(3)


@pytest.mark.parametrize(
    ("wanted", "nodes", "said"),
    [
        ("cuda", [SMALL], "offers a GPU"),
        ("cuda:1", [GPUS], "Ray chooses"),
        ("cpu", [HEAD], "offers a CPU"),
    ],
)
def test_a_device_that_there_is_not(wanted: str, nodes: list[dict[str, float]], said: str) -> None:
    with pytest.raises(UserError, match=said):
        node_share(wanted, nodes)


def test_a_node_takes_part_with_the_spec_and_the_same_versions() -> None:
    here = current_environment()
    check_node(Node("far", here, True), "a/spec.yaml")
    with pytest.raises(UserError, match=r"node far .* does not see a/spec\.yaml"):
        check_node(Node("far", here, False), "a/spec.yaml")
    other = replace(here, packages={**here.packages, "torch": "1.0"})
    with pytest.raises(UserError, match=r"node far .* has torch 1\.0"):
        check_node(Node("far", other, True), "a/spec.yaml")
