"""The Flower adapter, where Flower is installed: the same rounds through its messages, a new site
for every one.
"""

import numpy as np
import pytest

from corank import CoRLS
from corank_federated import Coordinator, InProcess, Limits, Plan, SharedItems, Site

flwr = pytest.importorskip("flwr.app")
from corank_federated.flower import FlowerChannel, client_app

NAMES = ("north", "south", "west")


def make(name, state=None):
    rng = np.random.default_rng(NAMES.index(name) + 1)
    X = rng.normal(size=(20, 3))
    items = np.random.default_rng(0).normal(size=(30, 3))
    return Site(
        name,
        CoRLS(alpha=0.5, gamma=0.3),
        X,
        X[:, 0],
        SharedItems(items),
        limits=Limits(1000),
        state=state,
    )


class Grid:
    """Nodes that answer at once."""

    def __init__(self, app):
        self.app = app

    def get_node_ids(self):
        return [11, 12, 13]

    def send_and_receive(self, messages, *, timeout=None):
        for message in messages:
            node = message.metadata.dst_node_id
            config = {"site": NAMES[node - 11]}
            context = flwr.Context(
                run_id=1, node_id=node, node_config=config, state=flwr.RecordDict(), run_config={}
            )
            reply = self.app(message, context)
            reply.metadata._src_node_id = node
            yield reply


def test_rounds_over_flower_give_the_same(tmp_path, monkeypatch):
    # what a run would have set
    identity = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(identity, name, 1, raising=False)
    kept = {}
    app = client_app(
        lambda context: make(context.node_config["site"], tmp_path / context.node_config["site"]),
        lambda context, site: kept.update({site.name: site.model}),
    )
    plan = Plan("test", NAMES, 0.3, schedule="parallel")
    result = Coordinator(plan, FlowerChannel(Grid(app), join_timeout=5, answer_timeout=5)).run()
    same = Coordinator(plan, InProcess([make(name) for name in NAMES])).run()
    np.testing.assert_allclose(result.predictions, same.predictions, atol=1e-9)
    assert result.n_rounds == same.n_rounds
    assert sorted(kept) == sorted(NAMES)
