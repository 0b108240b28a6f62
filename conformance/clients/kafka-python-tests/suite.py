"""kafka-python's own integration tests, from its source distribution, against a broker that runs already.

    suite.py SOURCES HOST:PORT [PYTEST ARGUMENTS...]

Prints `pass NAME`, `fail NAME REASON` or `skip NAME REASON` for every test. No file of kafka-python is changed: the parts of its tests that are left out
of the distribution, which would start brokers, are stood in for; tests that insist on a broker of their own are skipped.
"""

import os
import sys
import tempfile
import types

import pytest

TEST_LIMIT_SECONDS = 120


class RunningService:
    """Takes the place of a broker that the tests start: it runs already."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def nothing(self):
        pass

    open = close = stop = dump_logs = nothing


class OwnService:
    def __init__(self, *arguments, **settings):
        pytest.skip("starts a broker of its own")


def stand_in(sources):
    """The distribution's folder `test` is no package, and its module `service` is missing."""
    package = types.ModuleType("test")
    package.__path__ = [os.path.join(sources, "test")]
    service = types.ModuleType("test.service")
    service.ExternalService, service.SpawnedService = RunningService, OwnService
    package.service = service
    sys.modules["test"], sys.modules["test.service"] = package, service


class Outcomes:
    """A pytest plugin that prints what became of each test."""

    def __init__(self):
        self.told = {}

    def pytest_collection_modifyitems(self, items):
        for item in items:
            if "test_ssl_integration" in item.nodeid:
                item.add_marker(pytest.mark.skip(reason="starts a broker of its own"))

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("/")[-1].replace(".py::", "::")
        if report.failed:
            self.told[name] = ("fail", str(report.longrepr).strip().split("\n")[-1][:200])
        elif report.skipped:
            self.told.setdefault(name, ("skip", str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)[:200]))
        elif report.when == "call":
            self.told.setdefault(name, ("pass", ""))


def main():
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} SOURCES HOST:PORT [PYTEST ARGUMENTS...]")
    sources, address = os.path.abspath(sys.argv[1]), sys.argv[2]
    os.chdir(sources)
    sys.path.insert(0, sources)
    os.environ["KAFKA_URI"] = f"kafka://{address}"
    os.environ.setdefault("KAFKA_VERSION", "4.3.0")
    os.environ.setdefault("KAFKA_ROOT", tempfile.gettempdir())  # has to be a folder; nothing is put there
    stand_in(sources)
    outcomes = Outcomes()
    options = ["-p", "no:cacheprovider", "-p", "no:logging", "-q", "-W", "ignore", "--tb", "line", "--show-capture", "no", "--timeout", str(TEST_LIMIT_SECONDS)]
    pytest.main([*options, "test/integration", *sys.argv[3:]], plugins=[outcomes])
    for name, (outcome, reason) in outcomes.told.items():
        print(f"{outcome} {name} {reason}".strip())


if __name__ == "__main__":
    main()
