"""The app of a SuperNode: its `site` is the path of a site.toml."""

from pathlib import Path

from flwr.app import Context

from corank_federated import Site
from corank_federated.cli import site_of
from corank_federated.flower import client_app
from corank_federated.settings import read_site


def _settings(context: Context):
    return read_site(Path(str(context.node_config["site"])))


def make_site(context: Context) -> Site:
    """The site of this node."""
    return site_of(_settings(context))[0]


def keep(context: Context, site: Site) -> None:
    """Save its model, with what encodes its tables, beside its settings."""
    given = _settings(context)
    site.model.save(given.model, overwrite=True, encoder=site_of(given)[1])


app = client_app(make_site, keep)
