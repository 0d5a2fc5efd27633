"""A site that misbehaves from round 3 on, for the tests: federated_bad_site.py SETTINGS HOW."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from corank_federated.cli import site_of
from corank_federated.network import Connection
from corank_federated.settings import read_site


class BadSite:
    def __init__(self, site, how):
        self.site, self.name, self.how, self.old = site, site.name, how, None

    def hello(self):
        return self.site.hello()

    def handle(self, message):
        reply = self.site.handle(message)
        if message.kind != "round" or message["round"] < 3:
            self.old = reply
            return reply
        if self.how == "nan":
            return replace(reply, numbers=np.full_like(reply.numbers, np.nan))
        if self.how == "shape":
            return replace(reply, numbers=reply.numbers[:-1])
        if self.how == "replay":
            return self.old
        if self.how == "nonsense":
            return Nonsense()
        if self.how == "slow":
            time.sleep(30)
        if self.how == "vanish":
            os._exit(9)
        return reply


class Nonsense:
    def encoded(self):
        return b"\x00" * 100


if __name__ == "__main__":
    given = read_site(Path(sys.argv[1]))
    identity, authority = given.certificates.load(given.name)
    site, _ = site_of(given)
    print(Connection(given.coordinator, identity, authority).answer(BadSite(site, sys.argv[2])))
