#!/usr/bin/env python3
"""kazoo's own tests against servers that run already, compared with what they give against a real ZooKeeper 3.8.4 of three members.

    suite.py [--control COMMAND] [--capture] HOST:PORT[,HOST:PORT...] [PYTEST ARGUMENTS...]

Prints `ok` for every test that passes against the real one and passes here, `FAIL` where it does not, then the sums. Tests of reconfiguration are
left out, and named, where the servers have it disabled, which is ZooKeeper's default.
--control   a command that starts and stops members: `COMMAND start N` and `COMMAND stop N`, N from 1. Without it, tests that need it are left out.
--capture   writes the names of the tests that pass to suite.expected

No file of kazoo is changed: only its idea of the cluster is replaced, and the packages that would make certificates for it are stood in for.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import types

for certificate_package in ("OpenSSL", "jks"):
    sys.modules[certificate_package] = types.ModuleType(certificate_package)
os.environ.setdefault("ZOOKEEPER_VERSION", "3.8.4")

import pytest  # noqa: E402 (kazoo reads the version when it is imported)
import kazoo.testing.harness  # noqa: E402

EXPECTED = pathlib.Path(__file__).with_name("suite.expected")
TEST_LIMIT_SECONDS = 120
RECONFIG_DISABLED = "ReconfigDisabledError"
NEEDS_CONTROL = "  # stops members"


class Member:
    """Takes the place of kazoo's own managed server."""

    running = True

    def __init__(self, number, address, control):
        self.number = number
        self.address = address
        self.control = control

    @property
    def secure_address(self):
        pytest.skip("the servers have no TLS listener")

    def order(self, verb):
        if not self.control:
            pytest.skip("members cannot be stopped and started here")
        subprocess.run([*self.control.split(), verb, str(self.number)], check=True)

    def stop(self):
        self.order("stop")

    def run(self):
        self.order("start")


class Ensemble(list):
    """Takes the place of kazoo's cluster; what would start or end all of it does nothing."""

    def nothing(self):
        pass

    start = stop = terminate = reset = nothing

    def get_logs(self):
        return []

    def get_ssl_client_configuration(self):
        pytest.skip("the servers have no TLS listener")


class Outcomes:
    """A pytest plugin that keeps what became of each test, and whether it ordered a member to stop."""

    def __init__(self):
        self.passed = set()
        self.skipped = set()
        self.reasons = {}

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("kazoo/tests/")[-1]
        if report.failed:
            self.reasons[name] = str(report.longrepr).strip().split("\n")[-1][:300]
            self.passed.discard(name)
        elif report.skipped:
            self.skipped.add(name)
        elif report.when == "call":
            self.passed.add(name)


def tests_that_need_control(ensemble):
    """Wraps `order` so that the running test is noted; gives the set that fills."""
    noted = set()
    original = Member.order

    def order(self, verb):
        noted.add(os.environ.get("PYTEST_CURRENT_TEST", "").split("kazoo/tests/")[-1].split(" (")[0])
        original(self, verb)

    Member.order = order
    return noted


def compare(outcomes, has_control):
    passed = failed = 0
    left_out = []
    for line in EXPECTED.read_text().splitlines():
        name = line.removesuffix(NEEDS_CONTROL)
        if name != line and not has_control:
            continue
        if name in outcomes.passed:
            passed += 1
            print(f"ok   {name}")
        elif RECONFIG_DISABLED in outcomes.reasons.get(name, ""):
            left_out.append(name)
        else:
            failed += 1
            print(f"FAIL {name}: {outcomes.reasons.get(name, 'skipped' if name in outcomes.skipped else 'was not run')}")
    for name in left_out:
        print(f"left out, reconfiguration is disabled: {name}")
    print(f"{passed} passed, {failed} failed")
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--control")
    parser.add_argument("--capture", action="store_true")
    parser.add_argument("servers")
    parser.add_argument("pytest_arguments", nargs="*")
    arguments = parser.parse_intermixed_args()
    addresses = arguments.servers.split(",")
    ensemble = Ensemble(Member(number, address, arguments.control) for number, address in enumerate(addresses, 1))
    kazoo.testing.harness.get_global_cluster = lambda: ensemble
    outcomes, need_control = Outcomes(), tests_that_need_control(ensemble)
    options = ["--pyargs", "kazoo.tests", "-p", "no:cacheprovider", "-q", "-W", "ignore", "--timeout", str(TEST_LIMIT_SECONDS),
               "--tb", "line", "--show-capture", "no"]
    if not arguments.control:
        # It stops members in threads, where a skip is lost.
        options += ["-k", "not test_read_only"]
    pytest.main([*options, *arguments.pytest_arguments], plugins=[outcomes])
    if arguments.capture:
        lines = [name + (NEEDS_CONTROL if name in need_control else "") for name in sorted(outcomes.passed)]
        EXPECTED.write_text("".join(f"{line}\n" for line in lines))
        print(f"captured {len(lines)} tests; failed: {sorted(outcomes.reasons)}")
        return
    sys.exit(compare(outcomes, bool(arguments.control)) > 0)


if __name__ == "__main__":
    main()
